"""Lists of a bucket that draws them: with their chances, from the whole catalogue, a shortlist, or given candidates."""

from dataclasses import replace

import numpy as np
import pytest
from list_propensities import propensities

from learner import Samples
from streams.rank import Catalogue, Recipe
from streams.rank.choice import choose
from streams.rank.requests import RankRequest
from streams.settings import Bucket

RANDOM = np.random.default_rng(4)
SHOP = Catalogue(np.arange(100, 130), RANDOM.uniform(-0.5, 0.5, (30, 3)), Recipe(["constant", "item"]))
CONTEXTS = SHOP.recipe.contexts(SHOP.held, np.zeros(0))
TABLE = np.full(5, 0.5)
BUCKETS = {
    "linear": Bucket("b", "c2ucb", dim=4, positions=5, alpha=0.3, policy="plackett-luce"),
    "shortlist": Bucket("b", "c2ucb", dim=4, positions=5, alpha=0.3, policy="plackett-luce", shortlist=8),
    "context-free": Bucket("b", "pbm-ucb", dim=0, positions=5, examination=TABLE, policy="plackett-luce"),
    "by lot": Bucket("b", "random", dim=4, positions=5),
}
REQUESTS = {
    "all that is held": RankRequest("u"),
    "some that are held": RankRequest("u", items=np.arange(100, 120)),
    "given": RankRequest("u", items=SHOP.items, contexts=CONTEXTS),
    "explored half": RankRequest("u", explore=0.5),
}


def taught(bucket):
    model = bucket.model()
    rows = np.array([RANDOM.permutation(30)[:5] for _ in range(300)])
    clicks = RANDOM.random((300, 5)) < 0.3 + 0.6 * SHOP.held[rows, 1]
    contexts = CONTEXTS[rows] if bucket.dim else np.zeros((300, 5, 0))
    model.learn(Samples.from_clicks(contexts, clicks, SHOP.items[rows]))
    return model


@pytest.mark.parametrize("bucket", BUCKETS.values(), ids=BUCKETS)
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_list_is_drawn_with_the_chances_it_says(bucket, request_):
    model = taught(bucket)
    shown = choose(request_, bucket, model, SHOP, impression_id="i-1")
    assert shown.items.tolist() == choose(request_, bucket, model, SHOP, impression_id="i-1").items.tolist()
    assert shown.items.tolist() != choose(request_, bucket, model, SHOP, impression_id="i-2").items.tolist()
    items = SHOP.items if request_.items is None else request_.items
    scores = model.scores(CONTEXTS[items - 100], items, explore=request_.explore)
    rows = np.searchsorted(items, shown.items)
    temperature = bucket.temperature * request_.explore
    expected = propensities(scores, rows, temperature=temperature, shortlist=bucket.shortlist)
    np.testing.assert_allclose(shown.propensities, expected, rtol=1e-9)
    if request_.items is None:
        assert shown.candidates is None  # all that is held, which the catalogue's version tells
    else:
        assert shown.candidates.items.tolist() == items.tolist()
        assert len(shown.candidates.contexts) == len(items)


def test_without_exploring_the_best_list_is_shown_but_lots_stay_lots():
    still = RankRequest("u", explore=0.0)
    model = taught(BUCKETS["linear"])
    shown = choose(still, BUCKETS["linear"], model, SHOP, impression_id="i")
    best = choose(still, replace(BUCKETS["linear"], policy="best"), model, SHOP)
    assert (shown.items.tolist(), shown.propensities) == (best.items.tolist(), None)
    drawn = choose(still, BUCKETS["by lot"], taught(BUCKETS["by lot"]), SHOP, impression_id="i").propensities
    np.testing.assert_allclose(drawn, 1 / np.arange(30, 25, -1))


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_new_items_are_spread_over_the_lists_of_a_model_without_contexts(request_):
    bucket = Bucket("b", "pbm-ucb", dim=0, positions=5, examination=TABLE)
    model, wanted = bucket.model(), 30 if request_.items is None else len(request_.items)
    lists = [choose(request_, bucket, model, SHOP, impression_id=f"i-{n}").items.tolist() for n in range(40)]
    assert len({item for shown in lists for item in shown}) == wanted
    assert lists[7] == choose(request_, bucket, model, SHOP, impression_id="i-7").items.tolist()
    model.learn(Samples.from_clicks(np.zeros((1, 5, 0)), np.zeros((1, 5)), [lists[0]]))
    later = [choose(request_, bucket, model, SHOP, impression_id=f"j-{n}").items.tolist() for n in range(40)]
    assert not {item for shown in later for item in shown} & set(lists[0])  # what was tried waits for the rest
    known = taught(bucket)
    orders = {tuple(choose(request_, bucket, known, SHOP, impression_id=f"k-{n}").items) for n in range(40)}
    items = SHOP.items if request_.items is None else request_.items
    bounds = known._upper_bounds(items, request_.explore)
    for order in orders:
        np.testing.assert_array_equal(bounds[np.searchsorted(items, order)], np.sort(bounds)[::-1][:5])
