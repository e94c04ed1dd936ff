"""The demo: the same seed gives the same numbers, every event is accounted for, and θ is found."""

import math

import numpy as np
import pytest

from streams.demo import run_demo
from streams.demo.play import DemoError, balance
from streams.demo.report import lift_of
from streams.join import Ledger


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Two small demos with the same seed, one where another demo was before: their scores and their folders."""
    folders = [tmp_path_factory.mktemp("demo") for _ in range(2)]
    run_demo(lists=600, seed=1, out=folders[1])
    return [run_demo(lists=6000, seed=1, out=folder) for folder in folders], folders


def test_the_same_seed_gives_the_same_numbers_and_a_second_demo_in_a_folder_starts_anew(played):
    (first, second), _ = played
    assert first == second
    assert first[0].bucket == "random"
    assert len(first) == 6


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "server.log").write_text("keep")
    with pytest.raises(DemoError, match=r"holds 'server\.log', which no demo has made; take another --out"):
        run_demo(lists=600, seed=1, out=tmp_path)
    assert (tmp_path / "log" / "server.log").read_text() == "keep"


def test_examination_finds_the_taste_best(played):
    (scores, _), _ = played
    distance = {score.bucket: score.distance for score in scores if score.distance is not None}
    assert set(distance) == {"cm-linucb", "c2ucb", "dcm-linucb", "ubm-linucb"}
    assert min(distance, key=distance.get) == "ubm-linucb"
    assert all(score.ctr_sum > 1.2 * scores[0].ctr_sum for score in scores if score.bucket in distance)


def test_the_report_is_one_page_with_its_pictures_inside(played):
    _, (folder, _) = played
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 5
    assert page.index("Day one: what each learner makes") < page.index("The closed loop")
    assert "ubm, w fitted" in page
    assert "glimpse replay kafka --algorithm ubm-linucb --examination table.json" in page
    assert "ubm-linucb" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_the_balance_names_what_there_was():
    ledgers = [Ledger(impressions=5, lists=4, duplicates=1, clicks=2, used=2), Ledger(impressions=1, too_late=1)]
    assert balance(ledgers) == "6 impressions = 4 lists + 1 duplicates + 1 too late\n2 clicks = 2 used"


def test_the_interval_of_a_lift_covers():
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        lift, margin = lift_of(random.poisson(1.2, 2000).astype(float), random.poisson(1.0, 2000).astype(float))
        inside += abs(lift - 0.2) <= margin
    assert 0.92 <= inside / 300 <= 0.98
    assert not math.isnan(lift_of(np.zeros(5), np.zeros(5))[0])
