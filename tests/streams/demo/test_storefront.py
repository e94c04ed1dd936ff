"""A made-up shop and its users: a taste within bounds, ways of browsing, and drift."""

import numpy as np
import pytest

from streams.demo import Storefront, write_shop
from streams.demo.traffic import BROWSING, MEAN, SPREAD
from streams.rank import read_catalogue


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    file = tmp_path_factory.mktemp("shop") / "shop.npz"
    write_shop(file, seed=3)
    return read_catalogue(file)


def test_contexts_have_the_ten_numbers_of_the_demo_buckets(catalogue):
    assert (catalogue.dim, len(catalogue.items), catalogue.users) == (10, 500, 5000)


def test_what_attracts_is_a_chance_and_differs_between_users(catalogue):
    shop = Storefront(catalogue, seed=3)
    one, other = shop.attraction("user-1", 0), shop.attraction("user-2", 0)
    for gamma in (one, other):
        assert MEAN - 1.2 * SPREAD <= gamma.min() < gamma.max() <= MEAN + 1.2 * SPREAD
    assert np.corrcoef(one, other)[0, 1] < 0.99
    assert np.array_equal(one, Storefront(catalogue, seed=3).attraction("user-1", 0))


def test_a_taste_that_drifts_turns_and_one_that_does_not_stays(catalogue):
    still, turning = Storefront(catalogue, seed=3), Storefront(catalogue, seed=3, drift=90.0)
    assert np.array_equal(still.attraction("user-1", 0), still.attraction("user-1", 600))
    now, later = turning.attraction("user-1", 0), turning.attraction("user-1", 60)
    assert np.corrcoef(now, later)[0, 1] < 0.9
    np.testing.assert_allclose(now, turning.attraction("user-1", 240))


@pytest.mark.parametrize("browse", BROWSING)
def test_the_best_list_loses_nothing_and_is_clicked_more_often(catalogue, browse):
    shop, random = Storefront(catalogue, seed=3, browse=browse), np.random.default_rng(0)
    order = np.argsort(-shop.attraction("user-1", 0))
    best, worst = catalogue.items[order[:10]], catalogue.items[order[-10:]]
    clicks = [[len(shop.visit("user-1", items, 0, random)[0]) for _ in range(300)] for items in (best, worst)]
    assert np.mean(clicks[0]) > 2 * np.mean(clicks[1])
    assert shop.visit("user-1", best, 0, random)[1] == pytest.approx(0, abs=1e-12)
    assert shop.visit("user-1", worst, 0, random)[1] > 0.2
    if browse == "cm":
        assert max(clicks[0]) == 1


def test_another_way_of_browsing_is_refused(catalogue):
    with pytest.raises(ValueError, match="browse must be one of ubm, pbm, cm, dcm"):
        Storefront(catalogue, browse="sdbn")
