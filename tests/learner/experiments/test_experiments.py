"""The machinery of the experiments: the same luck for all, lessons in batches, and numbers that mean what they say."""

import numpy as np
import pytest
from scipy import stats

from learner import C2Ucb, PbmUcb, Samples, UbmLinUcb
from learner.experiments.arena import Earned, OnlinePolicy, Visits, batches, compete, pick
from learner.experiments.policies import (
    ALPHAS,
    BEYOND,
    PAPER,
    Entry,
    Knowledge,
    OnlineTable,
    Oracle,
    Thompson,
    Ucb,
    entered,
)
from learner.experiments.shop import POSITIONS, Taste, shop_table
from learner.experiments.shop import visits as shop_visits
from learner.experiments.summary import Mean, best_alphas, rows, verdicts
from learner.experiments.taobao import by_day, reweighted, shop_of, traffic_by_step
from learner.experiments.yandex import Yandex
from learner.simulate import World, answer, browsing_table

K, DIM = 4, 5
TABLE = browsing_table(K)


def visits(count, seed=0):
    world = World.random(
        np.random.default_rng(0), dim=DIM, examination=TABLE, items=300, candidates=12, mean=0.5, spread=0.45
    )
    items, contexts = world.visits(np.random.default_rng([7, seed]), count)
    gamma = world.users.attractiveness(contexts)
    return Visits(items, contexts, gamma, gamma)


def test_a_batch_is_ranked_as_list_by_list():
    asked = visits(30)
    for model in (
        UbmLinUcb(DIM, examination=TABLE),
        C2Ucb(DIM, positions=K, alpha=0.2),
        PbmUcb(examination=TABLE[:, 0]),
    ):
        shown = pick(np.tile(np.arange(K), (30, 1)), asked.contexts)
        clicks = np.random.default_rng(1).random((30, K)) < 0.4
        model.learn(Samples.from_clicks(shown, clicks, asked.items[:, :K]))
        together = Ucb(model).rank(asked, K, np.random.default_rng(0))
        apart = [model.rank(x, size=K, items=items) for x, items in zip(asked.contexts, asked.items, strict=True)]
        np.testing.assert_array_equal(together, apart)


def test_lessons_come_after_one_list_and_later_after_two_percent():
    sizes = [len(batch) for batch in batches(iter([visits(500), visits(700)]), rounds=1000)]
    assert sum(sizes) == 1000
    assert sizes[:50] == [1] * 50
    seen = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    assert all(size <= max(1, 0.02 * before) for size, before in zip(sizes, seen, strict=True))
    with pytest.raises(ValueError, match="the visits ended after 500"):
        list(batches(iter([visits(500)]), rounds=501))


def test_everyone_has_the_same_luck_and_knowing_beats_guessing():
    policies = {
        "one": Oracle(),
        "two": Oracle(),
        "random": OnlinePolicy(),
        "ubm": Ucb(UbmLinUcb(DIM, examination=TABLE, alpha=0.1)),
    }
    earned = compete(policies, batches(iter([visits(3000)]), rounds=3000), size=K, examination=TABLE, seed=1)
    assert np.array_equal(earned["one"].sums, earned["two"].sums)
    assert earned["one"].ctr_sum > earned["ubm"].ctr_sum > 1.1 * earned["random"].ctr_sum
    assert earned["one"].ctr_set > earned["ubm"].ctr_set > earned["random"].ctr_set
    again = compete(
        {"ubm": Ucb(UbmLinUcb(DIM, examination=TABLE, alpha=0.1))},
        batches(iter([visits(3000)]), rounds=3000),
        size=K,
        examination=TABLE,
        seed=1,
    )
    assert np.array_equal(again["ubm"].sums, earned["ubm"].sums)


def test_click_rates_agree_with_counted_clicks():
    """The oracle's rates are chances; users who answer the same lists click as often."""
    asked = visits(20_000)
    earned = compete({"oracle": Oracle()}, iter([asked]), size=K, examination=TABLE, seed=1)["oracle"]
    world = World.random(
        np.random.default_rng(0), dim=DIM, examination=TABLE, items=300, candidates=12, mean=0.5, spread=0.45
    )
    order = np.argsort(-asked.attractiveness, axis=1)[:, :K]
    clicks = world.users.browse(pick(order, asked.contexts), np.random.default_rng(3))
    assert abs(clicks.sum(axis=1).mean() - earned.ctr_sum) < 0.03
    assert abs(clicks.any(axis=1).mean() - earned.ctr_set) < 0.015


def test_what_is_learned_from_a_reweighted_log_shows_positions_as_they_are():
    """In the shop w[k, 0] falls from 0.55 to 0.19 in six positions: so does the reward, while drawn clicks saturate."""

    class Witness(OnlinePolicy):
        def learn(self, samples):
            by_rank.append(np.bincount(samples.position - 1, samples.reward))

    shop, taste = shop_of(2000), Taste.random(np.random.default_rng(0))
    record = shop_visits(shop, taste, np.random.default_rng(1), lists=60_000, clicked_only=True)
    attraction = reweighted(record.clicks, shop_table())
    contexts = np.zeros((*record.items.shape, 1))
    log = Visits(record.items, contexts, attraction, attraction).shuffled(np.random.default_rng(2))
    falls = {}
    for told in (False, True):
        by_rank = []
        compete({"w": Witness()}, iter([log]), size=6, examination=shop_table(), seed=0, reweighted=told)
        falls[told] = by_rank[0][5] / by_rank[0][0]
    assert falls[True] < 0.45 < 0.65 < falls[False]


def test_a_delayed_lesson_is_learned_later():
    class Witness(OnlinePolicy):
        def learn(self, samples):
            heard.append(len(samples))

    for delay in (0, 2):
        heard = []
        compete(
            {"w": Witness()}, iter([visits(5), visits(6), visits(7)]), size=K, examination=TABLE, seed=0, delay=delay
        )
        assert heard == [5, 6, 7][: 3 - delay]


def test_thompson_draws_from_the_posterior():
    model = UbmLinUcb(2, examination=TABLE, alpha=0.7)
    x = np.random.default_rng(0).uniform(-0.7, 0.7, size=(200, K, 2))
    model.learn(Samples.from_clicks(x, np.random.default_rng(1).random((200, K)) < 0.3))
    two = np.array([[0.6, 0.1], [0.1, 0.6]])
    n = 40_000
    asked = Visits(
        np.zeros((n, 2), dtype=np.int64), np.broadcast_to(two, (n, 2, 2)), np.zeros((n, 2)), np.zeros((n, 2))
    )
    first = (Thompson(model).rank(asked, 1, np.random.default_rng(2)) == 0).mean()
    gap = two[0] - two[1]
    z = gap @ model.theta / (0.7 * np.sqrt(gap @ np.linalg.solve(model.gram, gap)))
    assert abs(first - stats.norm.cdf(z)) < 0.01


def table_distance(found, truth):
    """Root mean square over the cells of two tables, both scaled to w[1, 0] = 1."""
    possible = np.tri(len(truth), dtype=bool)
    return np.sqrt(np.mean((found[possible] / found[0, 0] - truth[possible] / truth[0, 0]) ** 2))


def test_the_online_table_finds_w_and_sums_do_not_depend_on_batches():
    asked = visits(30_000)
    world = World.random(
        np.random.default_rng(0), dim=DIM, examination=TABLE, items=300, candidates=12, mean=0.5, spread=0.45
    )
    shown, items = asked.contexts[:, :K], asked.items[:, :K]
    samples = Samples.from_clicks(shown, world.users.browse(shown, np.random.default_rng(5)), items)
    policy = OnlineTable(DIM, positions=K, alpha=0.1)
    before = table_distance(policy.examination, TABLE)
    for start in range(0, 30_000, 3000):
        policy.learn(samples[start : start + 3000])
    assert table_distance(policy.examination, TABLE) < 0.05 < before
    whole = OnlineTable(DIM, positions=K, alpha=0.1)
    whole.learn(samples)
    for cell, (k, last) in enumerate([(k, last) for k in range(K) for last in range(K)]):
        mine = (samples.position == k + 1) & (samples.last_click == last)
        np.testing.assert_allclose(whole._grams[cell], samples.context[mine].T @ samples.context[mine], atol=1e-9)
        np.testing.assert_allclose(policy._responses[cell], samples.reward[mine] @ samples.context[mine], atol=1e-9)


def facts(lists, seed):
    """What the paper publishes of its log, as the simulated one has it."""
    shop, random = shop_of(40_000), np.random.default_rng(seed)
    clicks = shop_visits(shop, Taste.random(random), random, lists=lists, clicked_only=True).clicks
    last = POSITIONS - clicks[:, ::-1].argmax(axis=1)
    table = shop_table()[np.tri(POSITIONS, dtype=np.bool_)]
    return {
        "last click at 1": float((last == 1).mean()),
        "last click at 2": float((last == 2).mean()),
        "last click at 12": float((last == POSITIONS).mean()),
        "rows behind the last click": float(((POSITIONS - last) / POSITIONS).mean()),
        "smallest w": float(table.min()),
        "largest w": float(table.max()),
    }


def test_the_simulated_shop_has_the_published_facts():
    published = {
        "last click at 1": 0.166,
        "last click at 2": 0.116,
        "last click at 12": 0.062,
        "rows behind the last click": 0.54,
        "smallest w": 0.17,
        "largest w": 0.55,
    }
    found = facts(200_000, seed=0)
    assert found.keys() == published.keys()
    for name, value in published.items():
        assert abs(found[name] - value) < 0.01, (name, found[name])


def log(pages=1500, seed=0):
    """A search log of two queries with a few result sets each, browsed by known users."""
    random = np.random.default_rng(seed)
    sets = np.array([random.choice(12, size=6, replace=False) for _ in range(6)])
    which = random.integers(6, size=pages)
    items, queries = np.take_along_axis(sets[which], np.argsort(random.random((pages, 6)), axis=1), axis=1), which // 3
    gamma = random.uniform(0.1, 0.9, size=(2, 12))
    return items, answer(gamma[queries[:, None], items], browsing_table(6), random).clicks, queries


def test_the_search_log_becomes_contexts_with_their_attractiveness():
    items, clicks, queries = log()
    made = Yandex.from_log(items, clicks, queries, top=2, rank=3, pages=20)
    assert made.items.shape == (6, 6)
    assert made.features.shape == (6, 6, 6)
    assert np.linalg.norm(made.features, axis=2).max() == pytest.approx(1.0)
    assert made.share.sum() == pytest.approx(1.0)
    assert made.kept == 1.0
    pairs = sorted({(int(q), int(i)) for q, row in zip(queries, items, strict=True) for i in row})
    for context in range(6):
        shown = {pairs[number] for number in made.items[context]}
        here = [p for p in range(len(items)) if {(int(queries[p]), int(i)) for i in items[p]} == shown]
        assert len(here) / len(items) == pytest.approx(made.share[context])
        for place, number in enumerate(made.items[context]):
            clicked = examined = 0.0
            for page in here:
                at = int(np.flatnonzero(items[page] == pairs[number][1])[0])
                above = np.flatnonzero(clicks[page, :at])
                clicked += clicks[page, at]
                examined += made.known.table[at, above[-1] + 1 if len(above) else 0]
            assert made.attractiveness[context, place] == pytest.approx(min(1.0, clicked / examined))
    with pytest.raises(ValueError, match="0 of 6 contexts have at least 9999 pages"):
        Yandex.from_log(items, clicks, queries, pages=9999)


def test_the_features_are_singular_vectors_of_the_largest_values():
    made = Yandex.from_log(*log(), top=2, rank=3)
    matrix = np.zeros((len(made.items), made.items.max() + 1))
    np.put_along_axis(matrix, made.items, made.attractiveness, axis=1)
    largest = np.sqrt(np.linalg.eigvalsh(matrix @ matrix.T)[::-1][:3])
    left, right = made.features[:, 0, :3], made.features[:, :, 3:]
    projected = np.einsum("cm,cmr->cr", made.attractiveness, right)  # M v
    np.testing.assert_allclose(projected, left * largest, atol=1e-12)  # = s u
    np.testing.assert_allclose(left.T @ left, np.eye(3) * (left[:, 0] @ left[:, 0]), atol=1e-12)
    assert Yandex.from_log(*log(), top=2, rank=99).features.shape == (6, 6, 12)  # no more than the matrix has


def test_every_policy_plays_the_search_experiment():
    made = Yandex.from_log(*log(), top=2, rank=3)
    entries = [Entry(name, 0.1) for name in PAPER + BEYOND] + [Entry("random"), Entry("oracle")]
    played = made.play(entries, size=3, rounds=800, seed=1)
    assert list(played) == entries
    for entry in entries[:-1]:
        assert played[entry].ctr_sum < played[Entry("oracle")].ctr_sum
    assert played[Entry("ubm-linucb", 0.1)].ctr_sum > played[Entry("random")].ctr_sum
    assert [each.rounds[-1] for each in played.values()] == [800] * len(entries)


def test_all_get_the_same_search():
    known = Knowledge(TABLE, TABLE[:, 0])
    grid = [Entry(name, alpha) for name in PAPER + BEYOND for alpha in ALPHAS]
    assert len(entered(grid, dim=3, known=known)) == len(grid) == 7 * 7


def earned(total, lists=100.0):
    return Earned(np.array([50, 100]), np.array([total / 2, total]), np.array([lists / 4, lists / 2]))


def test_the_best_alpha_has_the_largest_mean_over_seeds():
    tried = [
        {Entry("a", 0.1): earned(10), Entry("a", 1.0): earned(30), Entry("b", None): earned(1)},
        {Entry("a", 0.1): earned(40), Entry("a", 1.0): earned(10), Entry("b", None): earned(2)},
    ]
    assert best_alphas(tried) == {"a": 0.1, "b": None}


def test_means_lifts_and_verdicts():
    played = [
        {
            Entry("c2ucb", 1.0): earned(50 + s),
            Entry("cm-linucb", 1.0): earned(55 + s),
            Entry("pbm-ucb"): earned(55 + 3 * (-1) ** s),
        }
        for s in range(4)
    ]
    table = rows(played, size=3, at=np.array([50, 100]))
    values = [(50 + s) / 100 for s in range(4)]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert table[0].ctr["ctr_sum"] == Mean(pytest.approx(np.mean(values)), pytest.approx((high - low) / 2))
    assert table[1].lift["ctr_sum"].value == pytest.approx(np.mean([(55 + s) / (50 + s) - 1 for s in range(4)]))
    assert table[1].curve["ctr_set"] == [0.5, 0.5]
    said = {(v.better, v.worse, v.metric): v.says for v in verdicts(table)}
    assert said["cm-linucb", "c2ucb", "ctr_sum"] == "holds"  # 0.05 above in each seed
    assert said["cm-linucb", "pbm-ucb", "ctr_sum"] == "undecided"
    assert said["cm-linucb", "c2ucb", "ctr_set"] == "undecided"  # equal
    assert not any(better == "ubm-linucb" for better, *_ in said)
    assert Mean.of([1.0]).half is None


def test_three_days_have_nights():
    steps = traffic_by_step(43_200)
    assert len(steps) == 3 * 24 * 6
    assert abs(steps.sum() - 43_200) < 250
    assert steps.reshape(3, 24, 6)[1, 4].sum() < steps.reshape(3, 24, 6)[1, 16].sum() / 3
    rounds = np.arange(1, 73) * 10
    daily = np.repeat([0.1, 0.2, 0.6], 24)
    curve = np.cumsum(daily * 10) / rounds
    np.testing.assert_allclose(by_day(rounds, curve), [0.1, 0.2, 0.6])


def test_shuffling_keeps_candidates_together():
    asked = visits(50)
    mixed = asked.shuffled(np.random.default_rng(0))
    assert not np.array_equal(mixed.items, asked.items)
    for before, after in zip(asked.items, mixed.items, strict=True):
        assert sorted(before) == sorted(after)
    back = np.argsort(mixed.items, axis=1), np.argsort(asked.items, axis=1)
    np.testing.assert_array_equal(pick(back[0], mixed.contexts), pick(back[1], asked.contexts))
    np.testing.assert_array_equal(pick(back[0], mixed.attraction), pick(back[1], asked.attraction))
