"""Comparisons that are looked at every minute, short forms; the long ones are in tests/soak/test_compare_soak.py."""

import numpy as np
import pytest
from compare_worlds import at, returning, upper_bound, visitors

from learner.compare import (
    RatioMoments,
    further_information,
    lift_over_control,
    loss_gaps,
    moments_over_time,
    ratio_evidence,
)

ALPHA = 0.05
ALARM = np.log(2000)


def two_buckets(seed, *, experiments, minutes, per_minute, **treated):
    rng = np.random.default_rng(seed)
    common = {"experiments": experiments, "minutes": minutes, "per_minute": per_minute}
    return visitors(rng, **common, **treated), visitors(rng, **common)


def test_moments_over_time_are_those_of_each_users_sums():
    rng = np.random.default_rng(5)
    pairs = np.unique(rng.integers(0, [30, 12], (200, 2)), axis=0)
    user, time_bin = rng.permutation(pairs).T
    size = rng.integers(1, 5, len(user))
    total = rng.integers(0, 9, len(user))
    moments = moments_over_time(user, time_bin, size, total, bins=12)
    for end in range(12):
        past = time_bin <= end
        n, s = (np.bincount(user[past], values[past], 30) for values in (size, total))
        expected = [len(np.unique(user[past])), n.sum(), s.sum(), (n * n).sum(), (n * s).sum(), (s * s).sum()]
        names = ("users", "size", "total", "size_size", "size_total", "total_total")
        assert [getattr(moments, name)[end] for name in names] == expected
        rate = s.sum() / n.sum()
        assert moments.spread[end] == pytest.approx(((s - rate * n) ** 2).sum())


def test_alike_buckets_are_seldom_called_different_however_often_one_looks():
    (treated, _), (control, _) = two_buckets(1, experiments=200, minutes=480, per_minute=30)
    lift = lift_over_control(treated, control, alpha=ALPHA)
    alarms = int(lift.decided.any(axis=1).sum())
    assert upper_bound(alarms, 200) < 0.07
    fixed = np.abs(np.log1p(lift.estimate)) > 1.96 * np.sqrt(lift.variance)
    assert fixed.any(axis=1).mean() > 0.2, "a test for one look is fooled here, so this one was tried"


def test_users_who_come_back_count_as_one():
    rng = np.random.default_rng(2)
    treated, control = (returning(rng, experiments=100, minutes=120, users=150, visits=0.2) for _ in range(2))
    assert lift_over_control(treated, control, alpha=ALPHA).decided.any(axis=1).mean() <= 0.1
    lists = RatioMoments(treated.size, treated.size, treated.total, treated.size, treated.total, 1.5 * treated.total)
    others = RatioMoments(control.size, control.size, control.total, control.size, control.total, 1.5 * control.total)
    naive = lift_over_control(lists, others, alpha=ALPHA)
    assert naive.decided.any(axis=1).mean() > 0.2, "lists as the unit are fooled here"


def test_a_lift_is_found_within_the_time_foretold():
    (better, _), (control, _) = two_buckets(3, experiments=100, minutes=240, per_minute=3000, lift=0.03)
    lift = lift_over_control(better, control, alpha=ALPHA)
    decided_at = np.where(lift.decided.any(axis=1), lift.decided.argmax(axis=1) + 1, np.inf)
    look = 5
    times = [
        further_information(
            np.log1p(lift.estimate[experiment, look - 1]), lift.variance[experiment, look - 1], alpha=ALPHA
        )
        for experiment in range(100)
    ]
    foretold = look * np.array(times)
    assert (decided_at <= foretold).mean() >= 0.8
    assert np.median(foretold) < 240
    assert not (lift.high < 0).any()


def test_a_true_lift_stays_within_its_bounds():
    (better, _), (control, _) = two_buckets(4, experiments=200, minutes=120, per_minute=600, lift=0.03)
    lift = lift_over_control(better, control, alpha=ALPHA)
    outside = ((lift.low > 0.03) | (lift.high < 0.03)).any(axis=1)
    assert upper_bound(int(outside.sum()), 200) < 0.08


def test_nothing_is_said_of_a_handful_of_users():
    (treated, _), (control, _) = two_buckets(6, experiments=3, minutes=2, per_minute=5)
    lift = lift_over_control(treated, control, alpha=ALPHA)
    assert np.isnan(lift.estimate).all()
    assert (lift.low == -1).all()
    assert (lift.high == np.inf).all()
    assert not lift.decided.any()


def test_a_leaking_split_is_found_and_a_tight_one_is_not_blamed():
    rng = np.random.default_rng(7)
    tight, leaking = (np.cumsum(rng.multinomial(6000, shares, (200, 240)), axis=1) for shares in SPLITS)
    assert (ratio_evidence(tight, [0.5, 0.5]) < ALARM).all()
    assert (ratio_evidence(leaking, [0.5, 0.5]).max(axis=1) > ALARM).all()


SPLITS = ([0.5, 0.5], [0.495, 0.505])


def test_a_bucket_that_loses_clicks_is_named_and_no_other():
    (_, losing), (_, sound) = two_buckets(8, experiments=20, minutes=240, per_minute=300, lost=0.02)
    (_, third), (_, fourth) = two_buckets(9, experiments=20, minutes=240, per_minute=300)
    gaps = loss_gaps([sound, losing, third, fourth], alpha=0.0005)
    assert gaps[1].alarm.any(axis=1).all()
    assert not any(gaps[number].alarm.any() for number in (0, 2, 3))


def test_a_small_bucket_without_losses_is_not_called_different():
    rng = np.random.default_rng(10)
    _, large = visitors(rng, experiments=200, minutes=120, per_minute=600, lost=0.005)
    _, small = visitors(rng, experiments=200, minutes=120, per_minute=6, lost=0.005)
    for gap in loss_gaps([large, small], alpha=0.0005):
        assert not gap.alarm.any()
        assert not ((gap.low > 0) | (gap.high < 0)).any()


def test_shares_that_do_not_fit_the_counts_are_refused():
    with pytest.raises(ValueError, match="a column per share"):
        ratio_evidence([[1, 2, 3]], [0.5, 0.5])
    with pytest.raises(ValueError, match="above 0"):
        ratio_evidence([[1, 2]], [1.0, 0.0])


def test_experiments_can_be_taken_apart():
    (treated, _), (control, _) = two_buckets(11, experiments=4, minutes=60, per_minute=100)
    whole = lift_over_control(treated, control, alpha=ALPHA)
    single = lift_over_control(at(treated, 2), at(control, 2), alpha=ALPHA)
    np.testing.assert_array_equal(whole.low[2], single.low)
