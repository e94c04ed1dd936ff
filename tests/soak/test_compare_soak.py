"""Comparisons that are looked at every minute of a day, a thousand times and more."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from browsing_streams import UBM_TABLE, Browsers
from compare_worlds import returning, upper_bound, visitors
from compared_loop import contradictions, play

from learner.compare import further_information, lift_over_control, loss_gaps, ratio_evidence
from streams.advise import ListColumns, window_fits

ALPHA, ALARM = 0.05, np.log(2000)
MINUTES = 1440
pytestmark = pytest.mark.timeout(3600)


@pytest.mark.parametrize("per_minute", [10, 100, 6000])
def test_alike_buckets_are_called_different_in_at_most_one_of_twenty(per_minute):
    rng, alarms, losses = np.random.default_rng(per_minute), 0, 0
    for _ in range(10):
        (one, lost), (other, lost_there) = (
            visitors(rng, experiments=100, minutes=MINUTES, per_minute=per_minute / 2, lost=0.002) for _ in range(2)
        )
        alarms += int(lift_over_control(one, other, alpha=ALPHA).decided.any(axis=1).sum())
        gaps = loss_gaps([lost, lost_there], alpha=0.0005)
        losses += int((gaps[0].alarm | gaps[1].alarm).any(axis=1).sum())
    print(f"per_minute {per_minute} lift_alarms {alarms} join_rate_alarms {losses} of 1000")
    assert upper_bound(alarms, 1000) <= 0.05
    assert losses <= 1


def test_users_who_come_back_do_not_break_it():
    rng, alarms = np.random.default_rng(2), 0
    for _ in range(10):
        one, other = (returning(rng, experiments=100, minutes=480, users=300) for _ in range(2))
        alarms += int(lift_over_control(one, other, alpha=ALPHA).decided.any(axis=1).sum())
    print(f"returning lift_alarms {alarms} of 1000")
    assert upper_bound(alarms, 1000) <= 0.05


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.8, 0.1, 0.1]], ids=str)
def test_a_tight_split_is_blamed_in_at_most_one_of_a_thousand(shares):
    rng, alarms, experiments = np.random.default_rng(3), 0, 20_000
    for _ in range(experiments // 500):
        counts = np.cumsum(rng.multinomial(rng.poisson(100, (500, MINUTES)), shares), axis=1)
        alarms += int((ratio_evidence(counts, shares).max(axis=1) >= ALARM).sum())
    print(f"shares {shares} sample_ratio_alarms {alarms} of {experiments}")
    assert upper_bound(alarms, experiments) <= 0.001


@pytest.mark.parametrize("look", [2, 5, 10])
def test_a_lift_of_three_percent_is_found_within_the_time_foretold(look):
    rng = np.random.default_rng(4)
    better, _ = visitors(rng, experiments=1000, minutes=300, per_minute=3000, lift=0.03)
    control, _ = visitors(rng, experiments=1000, minutes=300, per_minute=3000)
    lift = lift_over_control(better, control, alpha=ALPHA)
    found = np.where(lift.decided.any(axis=1), lift.decided.argmax(axis=1) + 1, np.inf)
    logarithm, variance = np.log1p(lift.estimate[:, look - 1]), lift.variance[:, look - 1]
    foretold = np.array(
        [look * further_information(*known, alpha=ALPHA) for known in zip(logarithm, variance, strict=True)]
    )
    within = found <= foretold
    print(f"look {look} found {np.median(found)} min foretold {np.median(foretold):.0f} min within {within.mean():.3f}")
    assert within.mean() >= 0.8
    assert within[found > look].mean() >= 0.8, "of those that were still undecided"


def test_two_percent_of_clicks_lost_are_noticed_within_a_day():
    rng = np.random.default_rng(5)
    _, losing = visitors(rng, experiments=200, minutes=MINUTES, per_minute=3000, lost=0.02)
    _, sound = visitors(rng, experiments=200, minutes=MINUTES, per_minute=3000)
    alarm = loss_gaps([losing, sound], alpha=0.0005)[0].alarm
    print(f"loss noticed after at most {alarm.argmax(axis=1).max() + 1} min")
    assert alarm.any(axis=1).all()


def test_a_leak_of_one_percent_is_noticed():
    rng = np.random.default_rng(6)
    counts = np.cumsum(rng.multinomial(6000, [0.495, 0.505], (1000, MINUTES)), axis=1)
    alarm = ratio_evidence(counts, [0.5, 0.5]) >= ALARM
    print(f"leak noticed after at most {alarm.argmax(axis=1).max() + 1} min")
    assert alarm.any(axis=1).all()


def test_a_million_lists_are_compared_in_seconds_and_megabytes():
    bench = Path(__file__).parents[1] / "bench" / "compare.py"
    told = subprocess.run([sys.executable, bench, "1000000"], check=True, capture_output=True, text=True).stdout
    print(told)
    found = {line.split()[0]: float(line.split()[1]) for line in told.splitlines()}
    assert found["compare_lists"] >= 1e6
    assert found["compare_all"] < 20
    assert found["compare_memory"] < 500


def test_verdicts_on_the_loop_contradict_the_truth_in_at_most_one_of_twenty():
    wrong, named = 0, 0
    for seed in range(200):
        found, truth = play(seed)
        wrong += bool(contradictions(found, truth))
        [learner] = [one for one in found.buckets if one.bucket == "ubm-linucb"]
        named += learner.lifts["sum"].low > 0
    print(f"loop contradicted {wrong} named {named} of 200")
    assert wrong <= 10
    assert named >= 195


def test_a_million_lists_of_users_who_do_not_change_raise_no_warning():
    users = Browsers(1)
    parts = [users.lists(10_000, UBM_TABLE) for _ in range(100)]
    fits = window_fits(ListColumns(*map(np.concatenate, zip(*parts, strict=True))), UBM_TABLE)
    certain = max((fit.certainty for fit in fits if fit.gain > 0), default=0.0)
    print(f"unchanged windows {len(fits)} warnings {sum(fit.changed for fit in fits)} certainty {certain:.1f}")
    assert len(fits) == 199
    assert not any(fit.changed for fit in fits)
