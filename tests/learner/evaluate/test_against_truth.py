"""Estimators in a world whose truth is known: bias, intervals and errors over 1,000 logs of UBM users."""

import numpy as np
import pytest

from learner.evaluate import (
    Browsing,
    Guess,
    Interval,
    LoggedLists,
    Policy,
    cascade_dr,
    ips,
    ubm_dr,
    ubm_ips,
    ubm_ips_sequential,
)

REPLICATIONS, LISTS = 1000, 500
FEWER = 300  # for what is only beside the point


@pytest.fixture(scope="module")
def logs(world):
    random = np.random.default_rng(11)
    shown = world.draw(REPLICATIONS * LISTS, random)
    clicks = world.browse(shown, random)
    parts = zip(np.split(shown, REPLICATIONS), np.split(clicks, REPLICATIONS), strict=True)
    return [LoggedLists.of(items, rewards) for items, rewards in parts]


@pytest.fixture(scope="module")
def judged(world, logs):
    """Estimates of an estimator in all logs, made once for all the tests of this file."""
    known = {"logging": world.logging}
    exact = {**known, "examination": world.table, "attractiveness": world.gamma}
    guess = Browsing(world.gamma[world.lists], world.table).rewards
    makers = {
        "UBM-IPS": lambda log: ubm_ips(log, world.target, **exact),
        "UBM-IPS, set": lambda log: ubm_ips(log, world.target, metric="set", **exact),
        "UBM-IPS, self-normalised": lambda log: ubm_ips(log, world.target, normalise=True, **exact),
        "UBM-IPS, estimated": lambda log: ubm_ips(log, world.target, examination=world.table),
        "UBM-IPS, estimated, set": lambda log: ubm_ips(log, world.target, examination=world.table, metric="set"),
        "lists": lambda log: ips(log, world.target, **known),
        "lists, self-normalised": lambda log: ips(log, world.target, normalise=True, **known),
        "lists, set": lambda log: ips(log, world.target, metric="set", **known),
        "positions": lambda log: ips(log, world.target, over="positions", **known),
        "prefixes": lambda log: ips(log, world.target, over="prefixes", **known),
        "prefixes, set": lambda log: ips(log, world.target, over="prefixes", metric="set", **known),
        "cascade DR": lambda log: cascade_dr(log, world.target, predicted=guess, **known),
        "cascade DR, half the guess": lambda log: cascade_dr(log, world.target, predicted=guess / 2, **known),
    }
    made = {}

    def estimates(name):
        if name not in made:
            often = name in ("lists", "positions") or name.startswith("UBM-IPS")
            made[name] = [makers[name](log) for log in (logs if often else logs[:FEWER])]
        return made[name]

    return estimates


def summary(estimates, truth):
    values = np.array([estimate.value for estimate in estimates])
    bias, error = values.mean() - truth, values.std(ddof=1) / np.sqrt(len(values))
    covered = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
    return bias, error, np.mean((values - truth) ** 2), covered


def report(name, truth, bias, error, squared, covered):
    print(f"{name}: truth {truth:.4f}, bias {bias:+.4f} ± {error:.4f}, MSE {squared:.5f}, covered {covered:.3f}")


UNBIASED = [
    *("UBM-IPS", "UBM-IPS, set", "lists", "lists, set", "prefixes", "prefixes, set"),
    *("cascade DR", "cascade DR, half the guess"),
]


@pytest.mark.parametrize("name", UNBIASED)
def test_no_bias_when_the_chances_are_known(world, judged, name):
    truth = world.value(world.target, "set" if name.endswith("set") else "sum")
    bias, error, *rest = summary(judged(name), truth)
    report(name, truth, bias, error, *rest)
    assert abs(bias) <= 3 * error


@pytest.mark.parametrize(
    "name", ["UBM-IPS", "UBM-IPS, set", "UBM-IPS, self-normalised", "UBM-IPS, estimated", "UBM-IPS, estimated, set"]
)
def test_intervals_hold_the_truth_as_often_as_they_say(world, judged, name):
    truth = world.value(world.target, "set" if name.endswith("set") else "sum")
    *_, covered = summary(judged(name), truth)
    assert 0.93 <= covered <= 0.97


WORTHS = {"0.1": [0.1] * 6, "5": [5.0] * 6, "mixed": [0.1, 1.0, 5.0, 0.5, 2.0, 0.2]}


@pytest.mark.parametrize("worth", WORTHS.values(), ids=WORTHS)
def test_what_a_click_is_worth_does_not_move_the_last_click(world, logs, worth):
    """Two items alike but in what they earn: without a click chance of its own, k′ would be driven by the reward."""
    worth = np.array(worth)
    value = world.gamma[world.lists] * worth[world.lists]
    truth = float(world.target.chances @ Browsing(world.gamma[world.lists], world.table, value).rewards.sum(axis=1))
    paid = [LoggedLists.of(log.items, log.rewards * worth[log.items]) for log in logs[:FEWER]]
    wrong = Guess(np.full(6, 0.2), 0.2 * worth)
    makers = {
        "UBM-IPS": lambda log: ubm_ips(log, world.target, examination=world.table),
        "UBM-DR": lambda log: ubm_dr(log, world.target, examination=world.table, guess=wrong),
        "UBM-DR, known": lambda log: ubm_dr(
            log,
            world.target,
            examination=world.table,
            guess=Guess(world.gamma, world.gamma * worth),
            logging=world.logging,
        ),
    }
    for name, make in makers.items():
        bias, error, squared, covered = summary([make(log) for log in paid], truth)
        report(name, truth, bias, error, squared, covered)
        assert abs(bias) <= 2 * error
        assert 0.91 <= covered <= 0.99  # 300 logs
    drawn = [
        ubm_ips_sequential(log, Policy.of([[0, 1, 2]]), examination=world.table, interval=Interval(draws=20)).value
        for log in paid[:60]
    ]
    best = np.array([[0, 1, 2]])
    truth = float(Browsing(world.gamma[best], world.table, (world.gamma * worth)[best]).rewards.sum())
    assert np.mean(drawn) == pytest.approx(truth, rel=0.02)


def test_a_guess_stands_in_for_what_was_never_logged(world):
    """Four lists to a context of its own taste: UBM-IPS loses what it never saw, a fair guess does not."""
    random = np.random.default_rng(3)
    contexts = np.arange(4000) // 4
    shown = world.draw(4000, random)
    log = LoggedLists.of(shown, world.browse(shown, random), contexts)
    policy = Policy.of(np.tile([0, 1, 2], (1000, 1)))
    truth = world.value(Policy.of([[0, 1, 2]]))
    plain = ubm_ips(log, policy, examination=world.table)
    guessed = ubm_dr(log, policy, examination=world.table, guess=Guess.from_log(log, world.table))
    assert plain.value < 0.95 * truth
    assert abs(guessed.value - truth) < 0.25 * abs(plain.value - truth)
    for found in (plain, guessed):
        assert any("was logged in 0 lists of its context or fewer" in text for text in found.warnings)


def test_the_bootstrap_takes_off_the_bias_that_its_draws_show():
    """Draws that lie below the value by a bias put the interval above it by as much."""
    interval = Interval(draws=200, seed=1)
    error, low, high = interval.resampled(10.0, lambda counts: float(9.0 + 0.001 * counts[0]), 50)
    assert 10.9 < low <= high < 11.1
    assert error < 0.01


def test_few_lists_per_item_and_few_effective_lists_are_said(world):
    few = ubm_ips(world.log(20, seed=1), world.target, examination=world.table)
    assert "lists of its context or fewer" in few.warnings[0]
    assert "effective lists of 20" in few.warnings[1]
    assert ubm_ips(world.log(500, seed=1), world.target, examination=world.table).warnings == ()
    known = ips(world.log(2000, seed=1), world.target, logging=world.logging)
    assert known.warnings == ()  # known chances need no lists to be estimated from
    assert known.lists_per_unit < 10
    drawn = ubm_ips_sequential(
        world.log(500, seed=1),
        Policy.of([[0, 1, 2]]),
        examination=world.table,
        metric="set",
        interval=Interval(draws=20),
    )
    assert "by 17% with one record per context" in drawn.warnings[-1]


def test_ubm_ips_errs_less_than_what_knows_nothing_of_browsing(world, judged):
    truth = world.value(world.target)
    names = ("UBM-IPS", "UBM-IPS, estimated", "lists", "positions", "prefixes", "cascade DR")
    found = {name: summary(judged(name), truth) for name in names}
    for name, numbers in found.items():
        report(name, truth, *numbers)
    squared = {name: numbers[2] for name, numbers in found.items()}
    assert squared["UBM-IPS"] < 0.5 * min(squared["lists"], squared["positions"])
    assert squared["UBM-IPS"] < squared["cascade DR"] < squared["prefixes"] < squared["lists"]


def test_item_position_ips_is_biased_where_clicks_depend_on_other_clicks(world, judged):
    bias, error, *_ = summary(judged("positions"), world.value(world.target))
    assert bias < -10 * error


def test_self_normalising_trades_little_bias_for_steadiness(world, judged):
    truth = world.value(world.target)
    for plain, normalised in (("lists", "lists, self-normalised"), ("UBM-IPS", "UBM-IPS, self-normalised")):
        assert summary(judged(normalised), truth)[2] < summary(judged(plain), truth)[2]
        assert abs(summary(judged(normalised), truth)[0]) < 0.01


@pytest.mark.parametrize("lists", [20, 500], ids=lambda lists: f"{lists} lists a log")
def test_the_papers_sequential_form_has_a_bias_which_is_measured(world, logs, lists, record_property):
    """Of the best fixed list, as the paper uses it; few records per context make it worse."""
    best = Policy.of([[0, 1, 2]])
    options = {"examination": world.table, "interval": Interval(draws=20)}
    for metric in ("sum", "set"):
        truth = world.value(best, metric)
        parts = [LoggedLists.of(log.items[:lists], log.rewards[:lists]) for log in logs[:150]]
        found = [
            ubm_ips_sequential(log, best, metric=metric, seed=seed, **options).value for seed, log in enumerate(parts)
        ]
        bias, error = np.mean(found) - truth, np.std(found) / np.sqrt(len(found))
        print(f"sequential, CTR_{metric}, {lists} lists: truth {truth:.4f}, bias {bias:+.4f} ± {error:.4f}")
        record_property(f"bias_{metric}_{lists}", float(bias))
        assert abs(bias) < (0.1 if lists == 20 else 0.02)


def test_with_one_record_per_context_the_papers_ctr_set_is_far_too_low(world, record_property):
    """Each record is its own candidate set, as in the paper's second data set; the policy reorders it by taste.

    γ̂ is then 0 or 1/w: rewards above 1 count as 1, so that clicks get lost. Weighing by w[k, 0] keeps them.
    """
    log = world.log(20_000, seed=4)
    contexts = np.arange(len(log))
    log = LoggedLists.of(log.items, log.rewards, contexts)
    best = np.take_along_axis(log.items, np.argsort(-world.gamma[log.items], axis=1), axis=1)
    policy, options = Policy.of(best, contexts), {"examination": world.table}
    one = Policy.of(best, np.zeros(len(best), dtype=int), np.full(len(best), 1 / len(best)))
    for metric, largest in (("sum", -0.0), ("set", -0.1)):
        truth = world.value(one, metric)
        drawn = ubm_ips_sequential(log, policy, metric=metric, interval=Interval(draws=20), **options)
        mean = ubm_ips(log, policy, metric=metric, **options)
        for name, found in (("sequential", drawn), ("mean over k′", mean)):
            bias = found.value - truth
            print(f"{name}, CTR_{metric}: truth {truth:.4f}, bias {bias:+.4f} ± {found.standard_error:.4f}")
            record_property(f"bias_{metric}_{name}", float(bias))
        assert drawn.value - truth < largest
        assert abs(mean.value - truth) < 0.02


def test_the_bootstrap_agrees_with_the_asymptotic_interval(world):
    log = world.log(400, seed=3)
    for estimator in (
        lambda **options: ubm_ips(log, world.target, examination=world.table, **options),
        lambda **options: ips(log, world.target, logging=world.logging, normalise=True, **options),
        lambda **options: ips(log, world.target, over="positions", **options),
    ):
        plain, drawn = estimator(), estimator(interval=Interval(draws=400, seed=1))
        assert plain.value == drawn.value
        assert drawn.standard_error == pytest.approx(plain.standard_error, rel=0.15)
        assert (drawn.low, drawn.high) == pytest.approx((plain.low, plain.high), abs=0.3 * plain.standard_error)
