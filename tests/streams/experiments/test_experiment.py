"""The experiments end to end, tiny: played, summed up and written in every form."""

import csv
import json
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from learner.experiments.day_one import DayOne
from learner.experiments.gap import LEVELS, POWERS, Gap
from learner.experiments.policies import BEYOND, PAPER
from learner.experiments.taobao import Online, Taobao, shop_of
from streams.experiments import job
from streams.experiments.explain_report import write_gap
from streams.experiments.job import ExperimentPlan, conduct, pool, run_yandex
from streams.experiments.paper_report import write_report
from streams.offline import LogError, train_encoder

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def encoder():
    return train_encoder(shop_of(500).contexts(np.random.default_rng(0), 2000), user_columns=26, seed=0, epochs=3)


def search_log(file, *, pages=400, short=False):
    random = np.random.default_rng(0)
    lines = []
    for page in range(pages):
        items = random.permutation(8).tolist()
        clicks = [int(random.random() < 0.8 / (1 + k + item)) for k, item in enumerate(items)]
        lines.append({"query": f"q{page % 4}", "items": items, "clicks": clicks})
    if short:
        lines[17] = {"query": "q", "items": [1, 2], "clicks": [0, 0]}
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def curves(file):
    """Return the names that stand at the ends of a figure's curves."""
    root = ElementTree.parse(file).getroot()
    texts = [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") is None]
    assert len(texts) == len(list(root.iter(f"{SVG}polyline")))
    return set(texts)


@pytest.mark.parametrize("judge", ["log", "drawn", "users"])
def test_taobao_is_played_by_all(encoder, judge, tmp_path):
    plan = ExperimentPlan(sizes=(3, 4), rounds=300, seeds=2, tuning_rounds=15, tuning_seeds=1)
    with pool(1) as players:
        section = conduct(Taobao(encoder, judge, fitted_lists=1000, items=500), plan, "tiny", "a note", players)
    names = [*PAPER, *BEYOND, "random", "oracle"]
    assert [row.name for row in section.rows] == 2 * names
    by_name = {row.name: row.ctr["ctr_sum"].value for row in section.rows if row.size == 3}
    assert by_name["oracle"] > by_name["random"] > 0
    assert len(section.verdicts) == 2 * 2 * 4
    assert section.checkpoints[-1] == 300
    write_report(tmp_path, "Tiny", [section])
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["sections"][0]["rows"][0]["by_seed"]["ctr_sum"] == section.rows[0].by_seed["ctr_sum"]
    with (tmp_path / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * len(names) * 2
    assert float(lines[0]["mean"]) == section.rows[0].ctr["ctr_sum"].value
    for name in ("sizes", "rounds-3", "rounds-4"):
        for metric in ("ctr_sum", "ctr_set"):
            assert curves(tmp_path / f"1-{name}-{metric}.svg") == set(names)
    page = (tmp_path / "report.html").read_text()
    assert "a note" in page
    assert page.count("<svg") == 6
    assert "| ubm-linucb > dcm-linucb |" in (tmp_path / "table.md").read_text()


def test_two_processes_find_what_one_finds(encoder):
    plan = ExperimentPlan(
        sizes=(3,), rounds=60, seeds=2, tuning_rounds=20, tuning_seeds=1, names=("c2ucb", "ubm-linucb")
    )
    experiment = Taobao(encoder, "log", fitted_lists=1000, items=500)
    sections = []
    for workers in (1, 2):
        with pool(workers) as players:
            sections.append(conduct(experiment, plan, "", "", players))
    alone, together = sections
    assert [row.by_seed for row in alone.rows] == [row.by_seed for row in together.rows]


def test_online_gives_a_curve_by_the_hour(encoder, tmp_path):
    plan = ExperimentPlan(sizes=(12,), rounds=432, seeds=1, tuning_rounds=432, tuning_seeds=1, names=("ubm-linucb",))
    with pool(1) as players:
        section = conduct(Online(encoder, fitted_lists=1000, items=2000), plan, "t", "n", players)
    assert len(section.checkpoints) == len(section.rows[0].curve["ctr_sum"]) == 72
    write_report(tmp_path, "Tiny", [section])
    for name in ("hours", "days"):
        for metric in ("ctr_sum", "ctr_set"):
            assert curves(tmp_path / f"1-{name}-{metric}.svg") == {"ubm-linucb", "random", "oracle"}


def test_yandex_reads_a_log_and_reports(tmp_path):
    run_yandex(search_log(tmp_path / "pages.jsonl"), tmp_path / "out", rounds=8, seeds=2, workers=1)
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert [row["size"] for row in found["sections"][0]["rows"] if row["name"] == "oracle"] == [3, 4, 5, 6]
    assert "pages.jsonl" in found["sections"][0]["note"]


def without_query(file):
    file.write_text('{"items": [1, 2], "clicks": [0, 1]}\n')
    return file


def of_three(file):
    file.write_text('{"query": "q", "items": [1, 2, 3], "clicks": [0, 1, 0]}\n')
    return file


BAD = {
    "ragged": (partial(search_log, short=True), r"pages line 18 has 2 items; all pages must have 8"),
    "few pages": (partial(search_log, pages=60), r"pages: 0 of 3 contexts have at least 20 pages"),
    "no query": (without_query, "pages has no 'query' column"),
    "short lists": (of_three, "pages has lists of 3; this experiment chooses up to 6"),
}


@pytest.mark.parametrize("make, said", BAD.values(), ids=BAD)
def test_a_log_that_does_not_fit_is_one_clear_line(make, said, tmp_path):
    with pytest.raises(LogError, match=said):
        run_yandex(make(tmp_path / "pages"), tmp_path / "out", rounds=60, seeds=1, workers=1)


def test_the_explaining_experiments_write_their_reports(tmp_path, monkeypatch):
    tiny = DayOne(table="0.95/k", lists=300, served=50, size=4)
    monkeypatch.setattr(job, "cases", lambda: {("b", "one"): tiny, ("b", "two"): tiny})
    monkeypatch.setattr(job, "ROWS", (50,))
    log = search_log(tmp_path / "pages.jsonl")
    job.run_day_one(tmp_path / "day", logs=[(log, log)], seeds=2, workers=1)
    text = (tmp_path / "day/table.md").read_text()
    assert "| two | 0 (" in text
    assert "| pages |" in text
    assert "<svg" in (tmp_path / "day/report.html").read_text()
    job.run_coverage(tmp_path / "coverage", replications=6, workers=1)
    assert "| 50 | mixed |" in (tmp_path / "coverage/table.md").read_text()
    grid = [Gap(power, level, changing, 60) for changing in (True, False) for power in POWERS for level in LEVELS]
    lifts = grid[0].play(0)
    write_gap(tmp_path / "gap", {world: [lifts, lifts] for world in grid}, seeds=2, seconds=1.0)
    assert "Taobao" in (tmp_path / "gap/gap.svg").read_text()
    assert "0.95/k^2" in (tmp_path / "gap/table.md").read_text()
