"""The paper's check of its estimator, on small logs and on the public ones when they lie beside the repository."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from first_position import first_position_check

from learner.click_models import UBM
from learner.evaluate import LoggedLists

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
PAPER = {"UBM-IPS": 0.1754, "IPS": 0.1943}  # on a log that is not public


def public(name, part):
    with gzip.open(SHARED / f"{name}_{part}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    queries = sorted({str(row["query"]) for row in rows})
    numbers = {query: number for number, query in enumerate(queries)}
    return LoggedLists.of(
        *([row[key] for row in rows] for key in ("items", "clicks")), [numbers[str(row["query"])] for row in rows]
    )


def check(log):
    table = UBM().fit(log.items, log.rewards, log.contexts).examination
    return first_position_check(log, examination=table)


def test_the_check_is_what_counting_finds():
    log = LoggedLists.of(
        [[1, 2], [2, 1], [2, 1], [3, 1], [1, 2]], [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]], contexts=[0, 0, 0, 0, 1]
    )
    table = np.array([[0.9, 0.0], [0.5, 0.8]])
    judged = first_position_check(log, examination=table)
    # item 1 below: clicks 1, 1, 0 at k′ = 0, 1, 0; item 2 below: 0 at k′ = 1; item 3 never; context 1 has none twice
    one, two = 0.9 * 2 / (0.5 + 0.8 + 0.5), 0.9 * 0 / 0.8
    assert judged.ubm.value == pytest.approx(np.mean([(1 - one) ** 2, (0 - two) ** 2, (1 - two) ** 2]))
    assert judged.ips.value == pytest.approx(np.mean([(1 - 2 / 3) ** 2, 0, 1]))
    assert (judged.lists, judged.left_out) == (3, 2)


def test_users_who_browse_by_ubm_pass_it(world):
    """Where the model holds, its predictions hit the mean of the first position, and leaving w out does not."""
    judged = first_position_check(world.log(50_000, seed=2), examination=world.table)
    assert judged.predicted_ubm == pytest.approx(judged.clicked, abs=0.01)
    assert judged.predicted_ips < judged.clicked - 0.1
    assert judged.difference.high < 0


# What users who browse by UBM give, and the public logs: one with many records of each query, one with few.
FIGURES = {
    "ubm users": (0.1787, 0.1941, "better"),
    "yandex": (0.1771, 0.1881, "better"),
    "clara2": (0.1831, 0.1247, "worse"),
}
FOUND = [name for name in FIGURES if name == "ubm users" or (SHARED / f"{name}_train.jsonl.gz").exists()]


@pytest.mark.parametrize("name", FOUND)
def test_it_is_measured_beside_the_papers_figures(world, name, record_property):
    judged = check(world.log(20_000, seed=2) if name == "ubm users" else public(name, "train"))
    for label, error in (("UBM-IPS", judged.ubm), ("IPS", judged.ips), ("difference", judged.difference)):
        paper = f", paper {PAPER[label]}" if label in PAPER else ""
        print(f"{name} {label}: MSE {error.value:.4f} ({error.low:.4f} to {error.high:.4f}){paper}")
        record_property(f"{name} {label}", float(error.value))
    ubm, ips, verdict = FIGURES[name]
    assert (judged.ubm.value, judged.ips.value) == pytest.approx((ubm, ips), abs=0.0005)
    assert judged.difference.high < 0 if verdict == "better" else judged.difference.low > 0
