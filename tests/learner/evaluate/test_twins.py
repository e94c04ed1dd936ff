"""Each kernel against a slow, obvious twin: loops over lists, and users who are followed click by click."""

from itertools import product

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
from learner.simulate import browsing_table


def every_outcome(gamma, table):
    """Yield all click patterns of a UBM user on one list, with their chances."""
    for clicks in product([0, 1], repeat=len(gamma)):
        chance, last = 1.0, 0
        for k, clicked in enumerate(clicks):
            click = table[k, last] * gamma[k]
            chance *= click if clicked else 1 - click
            last = k + 1 if clicked else last
        yield clicks, chance


def last_click(clicks, k):
    return max((j + 1 for j in range(k) if clicks[j]), default=0)


def test_browsing_is_what_all_outcomes_say():
    gamma, table = np.array([0.7, 0.2, 0.9, 0.5]), browsing_table(4)
    users = Browsing(gamma[None], table)
    last, exposures, firsts = np.zeros((4, 4)), np.zeros(4), np.zeros(4)
    for clicks, chance in every_outcome(gamma, table):
        for k in range(4):
            last[k, last_click(clicks, k)] += chance
            exposures[k] += chance * table[k, last_click(clicks, k)]
            firsts[k] += chance * (clicks[k] and not any(clicks[:k]))
    np.testing.assert_allclose(users.last_clicks[0], last, atol=1e-15)
    np.testing.assert_allclose(users.exposures[0], exposures, atol=1e-15)
    np.testing.assert_allclose(users.rewards[0], gamma * exposures, atol=1e-15)
    np.testing.assert_allclose(Browsing(gamma[None], table, metric="set").rewards[0], firsts, atol=1e-15)


@pytest.mark.parametrize("high", [1.0, 1.6], ids=["chances", "estimates above 1"])
def test_slopes_are_the_differences_that_a_little_more_attractiveness_makes(high):
    random = np.random.default_rng(2)
    gamma, worth, table, step = high * random.random((20, 4)), 5 * random.random((20, 4)), browsing_table(4), 1e-6
    for k in range(4):
        more, less = gamma.copy(), gamma.copy()
        more[:, k] += step
        less[:, k] -= step
        for metric in ("sum", "set"):
            up, down = (Browsing(each, table, worth, metric).rewards.sum(axis=1) for each in (more, less))
            slopes = Browsing(gamma, table, worth, metric).slopes
            np.testing.assert_allclose(slopes[:, k], (up - down) / (2 * step), atol=1e-7)


def random_case(seed, *, contexts=3, lists=40, positions=4, items=6):
    """A log in several contexts with lists that end early, and a policy with three lists in each."""
    random = np.random.default_rng(seed)

    def draw(count):
        shown = np.array([random.permutation(items)[:positions] for _ in range(count)])
        sizes = random.integers(1, positions + 1, count)
        return np.where(np.arange(positions) < sizes[:, None], shown, -1)

    shown = draw(6)[random.integers(6, size=lists)]
    where = random.integers(contexts, size=lists) * 10
    rewards = (random.random(shown.shape) < 0.4) * (shown >= 0) * random.choice([0.1, 1.0, 5.0], size=shown.shape)
    chances = random.dirichlet(np.ones(3), contexts)
    known = np.unique(where)
    target = [shown[where == context][:2].tolist() + draw(1).tolist() for context in known]
    policy = Policy.of(
        np.vstack([(lists * 3)[:3] for lists in target]), np.repeat(known, 3), chances[: len(known)].reshape(-1)
    )
    return LoggedLists.of(shown, rewards, where), policy


def chance_of(policy, context, seen):
    """Add up the chances of the policy's lists in a context for which ``seen`` is true."""
    lists = zip(policy.items.tolist(), policy.contexts, policy.chances, strict=True)
    return sum(chance for items, where, chance in lists if where == context and seen(items))


def frequency(log, context, seen):
    found = [seen(items) for items, where in zip(log.items.tolist(), log.contexts, strict=True) if where == context]
    return sum(found) / len(found)


SAME = {
    "lists": lambda items, k: lambda other: other == items,
    "prefixes": lambda items, k: lambda other: other[: k + 1] == items[: k + 1],
    "positions": lambda items, k: lambda other: other[k] == items[k],
}


@pytest.mark.parametrize("over", SAME)
@pytest.mark.parametrize("seed", range(5))
def test_ips_is_the_sum_that_loops_find(over, seed):
    log, policy = random_case(seed)
    total, clipped = 0.0, 0.0
    for items, rewards, context in zip(log.items.tolist(), log.rewards, log.contexts, strict=True):
        for k, reward in enumerate(rewards):
            same = SAME[over](items, k)
            weight = chance_of(policy, context, same) / frequency(log, context, same)
            total += reward * weight / len(log)
            clipped += reward * min(weight, 0.7) / len(log)
    assert ips(log, policy, over=over).value == pytest.approx(total, abs=1e-12)
    assert ips(log, policy, over=over, clip=0.7).value == pytest.approx(clipped, abs=1e-12)
    assert ips(log, policy, over=over).propensities.startswith("estimated")


def followed(log, policy, table, guess=lambda context, item: (0.0, 0.0)):
    """The policy's value by loops: rates of items in their contexts, and users who are followed click by click."""
    clicked, earned, seen, lists = {}, {}, {}, {}
    for items, rewards, context in zip(log.items.tolist(), log.rewards, log.contexts, strict=True):
        lists[context] = lists.get(context, 0) + 1
        for k, item in enumerate(items):
            if item >= 0:
                pair = context, item
                clicked[pair] = clicked.get(pair, 0) + (rewards[k] > 0)
                earned[pair] = earned.get(pair, 0) + rewards[k]
                seen[pair] = seen.get(pair, 0) + table[k, last_click(rewards, k)]
    value = 0.0
    for items, context, chance in zip(policy.items.tolist(), policy.contexts, policy.chances, strict=True):
        states = {0: 1.0}  # k′ and its chance
        for k, item in enumerate(item for item in items if item >= 0):
            pair = context, item
            rates = (clicked[pair] / seen[pair], earned[pair] / seen[pair]) if pair in seen else guess(*pair)
            clicks = {last: min(table[k, last] * rates[0], 1) for last in states}
            value += (
                lists[context] / len(log) * chance * sum(states[last] * table[k, last] * rates[1] for last in states)
            )
            stays = sum(states[last] * clicks[last] for last in states)
            states = {last: states[last] * (1 - clicks[last]) for last in states} | {k + 1: stays}
    return value


@pytest.mark.parametrize("seed", range(5))
def test_ubm_ips_is_the_sum_that_loops_find_and_ubm_dr_has_a_guess_besides(seed):
    log, policy = random_case(seed)
    table = browsing_table(4)
    assert ubm_ips(log, policy, examination=table).value == pytest.approx(followed(log, policy, table), abs=1e-12)
    guess = Guess(np.linspace(0.1, 0.6, 6), np.linspace(1.0, 2.0, 6))
    told = followed(log, policy, table, lambda _, item: (guess.attractiveness[item], guess.worth[item]))
    assert ubm_dr(log, policy, examination=table, guess=guess).value == pytest.approx(told, abs=1e-12)


def test_ubm_dr_by_hand_with_a_known_logging_policy():
    """One position: γ = guess + Σ (click − w · guess) / (lists · w · π)."""
    log = LoggedLists.of([[0], [0], [1], [1]], [[2.0], [0.0], [0.0], [0.0]])
    logging = Policy.of([[0], [1]], [0, 0], [0.25, 0.75])
    found = ubm_dr(log, Policy.of([[0]]), examination=[[0.5]], guess=Guess([0.4, 0.4], [0.6, 0.6]), logging=logging)
    worth = 0.6 + (2.0 - 2 * 0.5 * 0.6) / (4 * 0.5 * 0.25)
    assert found.value == pytest.approx(0.5 * worth)
    assert found.propensities == "given"


def test_where_everything_is_examined_it_is_the_document_based_form(world):
    """With w ≡ 1 a reward counts P_Φ(a shown)/P_π(a shown) times, k′ being no matter."""
    log, table = world.log(300), np.tril(np.ones((3, 3)))

    def shown(policy):
        return np.array([policy.chances[(policy.items == item).any(axis=1)].sum() for item in range(6)])

    weights = (shown(world.target) / shown(world.logging))[log.items]
    options = {"examination": table, "attractiveness": world.gamma, "logging": world.logging}
    found = ubm_ips(log, world.target, **options)
    assert found.value == pytest.approx((weights * log.rewards).sum(axis=1).mean(), abs=1e-13)
    assert found.largest_weight == pytest.approx(weights.max(), abs=1e-13)


def test_the_sequential_form_has_the_other_as_its_mean(world):
    log = world.log(1000, seed=8)
    for metric, policy in (("sum", Policy.of([[0, 1, 2]])), ("set", Policy.of([[0, 1, 2]])), ("sum", world.target)):
        options = {"examination": world.table, "metric": metric}
        mean = ubm_ips(log, policy, **options).value
        draws = [
            ubm_ips_sequential(log, policy, seed=seed, interval=Interval(draws=20), **options).value
            for seed in range(30)
        ]
        assert np.mean(draws) == pytest.approx(mean, abs=4 * np.std(draws) / np.sqrt(len(draws)))


def test_logged_chances_count_as_the_policy_that_they_come_from(world):
    log = world.log(200, seed=5)

    def chance(seen):
        return world.logging.chances[seen].sum()

    above = np.ones((200, 4))
    at = np.ones((200, 3))
    for row, items in enumerate(log.items):
        for k in range(3):
            above[row, k + 1] = chance((world.lists[:, : k + 1] == items[: k + 1]).all(axis=1))
            at[row, k] = chance(world.lists[:, k] == items[k])
    logged = LoggedLists.of(log.items, log.rewards, chances=above[:, 1:] / above[:, :-1], position_chances=at)
    for over in SAME:
        for normalise in (False, True):
            given = ips(log, world.target, over=over, logging=world.logging, normalise=normalise)
            found = ips(logged, world.target, over=over, normalise=normalise)
            assert found.value == pytest.approx(given.value, abs=1e-12)
            assert found.standard_error == pytest.approx(given.standard_error, abs=1e-12)
            assert (given.propensities, found.propensities) == ("given", "from the log")


def test_cascade_dr_with_the_guess_0_is_cascade_ips_and_a_sure_guess_needs_no_weights(world):
    log = world.log(200, seed=6)
    nothing = np.zeros(world.target.items.shape)
    plain = ips(log, world.target, over="prefixes", logging=world.logging)
    assert cascade_dr(log, world.target, predicted=nothing, logging=world.logging).value == pytest.approx(plain.value)
    always = LoggedLists.of(log.items, np.ones(log.items.shape))
    sure = cascade_dr(always, world.target, predicted=nothing + 1, logging=world.logging)
    assert sure.value == pytest.approx(3)
    assert sure.standard_error == pytest.approx(0, abs=1e-12)


def test_lists_shorter_than_the_logged_ones_use_all_rows_of_ubm_and_the_first_of_the_others(world):
    log = world.log(3000, seed=9)
    policy = Policy.of([[0, 1]])
    short = LoggedLists.of(log.items[:, :2], log.rewards[:, :2])
    assert ips(log, policy).value == ips(short, policy).value
    found, cut = (ubm_ips(each, policy, examination=world.table) for each in (log, short))
    assert found.standard_error < cut.standard_error
    assert found.low <= world.value(policy) <= found.high


def test_what_the_log_never_shows_is_counted(world):
    log = LoggedLists.of([[0, 1], [0, 1], [1, 0], [1, 0]], [[1, 0], [1, 0], [0, 1], [0, 0]])
    half = Policy.of([[0, 1], [5, 4]], contexts=[0, 0], chances=[0.5, 0.5])
    for over in SAME:
        assert ips(log, half, over=over).unsupported == pytest.approx(0.5)
    assert ubm_ips(log, half, examination=np.tril(np.ones((2, 2)))).unsupported == pytest.approx(0.5)
    whole, normalised = ips(log, Policy.of([[0, 1]])), ips(log, half, normalise=True)
    assert normalised.value == pytest.approx(whole.value)  # what is known stands for the rest
    assert whole.effective_lists == pytest.approx(2.0)
    assert whole.largest_weight == 2.0
