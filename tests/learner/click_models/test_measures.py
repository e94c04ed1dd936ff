from itertools import product
from math import log, log2

import numpy as np
import pytest

from learner.click_models import CM, DCM, PBM, UBM
from learner.click_models import model as measured

pytestmark = pytest.mark.filterwarnings("ignore:.*no list reached")

MODELS = [UBM, PBM, CM, DCM]
POSITIONS = 5


@pytest.fixture(scope="module", params=MODELS, ids=lambda kind: kind.__name__)
def judged(request, twin):
    """A fitted model, lists it has not met (some items unknown), and its twin: P(click at rank | clicks above)."""
    model = request.param().fit(*twin.random_log(31, lists=150, longest=POSITIONS))
    items, clicks, queries = twin.random_log(32, lists=40, longest=POSITIONS, items=8, queries=4)

    def chance(shown, query, above):
        rank = len(above)
        attract = [float(a) for a in model.attractiveness(shown, [query] * len(shown))]
        if isinstance(model, UBM):
            return attract[rank] * model.examination[rank, twin.last_click(above, rank)]
        if isinstance(model, PBM):
            return attract[rank] * model.examination[rank]
        if isinstance(model, CM):
            return twin.STRAY if any(above) else attract[rank]
        before = twin.dcm_joint(attract[:rank], above, model.continuation)
        return twin.dcm_joint(attract[: rank + 1], [*above, 1], model.continuation) / before

    return model, (items, clicks, queries), chance


def happened(chance, shown, query, clicks):
    """P(what happened | the clicks above) for each rank."""
    result = []
    for rank, click in enumerate(clicks):
        p = chance(shown, query, clicks[:rank])
        result.append(p if click else 1 - p)
    return result


def test_log_likelihood_is_the_mean_over_shown_positions(judged):
    model, lists, chance = judged
    rows = [log(p) for s, c, q in zip(*lists, strict=True) for p in happened(chance, s, q, c)]
    assert model.log_likelihood(*lists) == pytest.approx(sum(rows) / len(rows), abs=1e-12)


def test_conditional_perplexity_knows_the_clicks_above(judged):
    model, lists, chance = judged
    ranks = [[] for _ in range(POSITIONS)]
    for shown, clicks, query in zip(*lists, strict=True):
        for rank, p in enumerate(happened(chance, shown, query, clicks)):
            ranks[rank].append(log2(p))
    expected = [2 ** -(sum(rank) / len(rank)) for rank in ranks]
    np.testing.assert_allclose(model.perplexity_per_rank(*lists, given_clicks_above=True), expected, rtol=1e-12)
    assert model.conditional_perplexity(*lists) == pytest.approx(sum(expected) / POSITIONS, rel=1e-12)


def test_perplexity_sums_over_all_that_may_have_been_clicked_above(judged):
    model, lists, chance = judged
    ranks = [[] for _ in range(POSITIONS)]
    for shown, clicks, query in zip(*lists, strict=True):
        for rank, click in enumerate(clicks):
            p = sum(
                np.prod(happened(chance, shown, query, above)) * chance(shown, query, above)
                for above in product([0, 1], repeat=rank)
            )
            ranks[rank].append(log2(p if click else 1 - p))
    expected = [2 ** -(sum(rank) / len(rank)) for rank in ranks]
    np.testing.assert_allclose(model.perplexity_per_rank(*lists), expected, rtol=1e-12)
    assert model.perplexity(*lists) == pytest.approx(sum(expected) / POSITIONS, rel=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_an_unknown_item_is_judged_with_one_half(kind):
    model = kind().fit([[1]], [[1]])
    examined = (1 + 1) / (2 + 1) if kind in (UBM, PBM) else 1.0
    assert model.log_likelihood([[2]], [[1]]) == pytest.approx(log(0.5 * examined), rel=1e-12)
    assert model.perplexity([[2]], [[0]]) == pytest.approx(model.conditional_perplexity([[2]], [[0]]), rel=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_blocks_of_lists_do_not_change_a_measure(twin, kind, monkeypatch):
    lists = twin.random_log(33, lists=100, longest=4)
    model = kind().fit(*lists)
    whole = model.log_likelihood(*lists), model.perplexity(*lists)
    monkeypatch.setattr(measured, "LISTS_AT_ONCE", 7)
    assert (model.log_likelihood(*lists), model.perplexity(*lists)) == pytest.approx(whole, rel=1e-13)


def test_a_second_click_costs_cm_much_but_not_everything(twin):
    model = CM().fit([[1, 2]] * 8, [[1, 0]] * 8)
    assert model.log_likelihood([[1, 2]], [[1, 1]]) == pytest.approx((log(0.9) + log(twin.STRAY)) / 2)
    assert model.log_likelihood([[1, 2]], [[1, 0]]) == pytest.approx(log(0.9) / 2, abs=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_shorter_lists_than_those_learned_from_are_fine(kind):
    model = kind().fit([[1, 2, 3]] * 4, [[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]])
    assert model.perplexity_per_rank([[1, 2], [1]], [[1, 0], [0]]).shape == (2,)


@pytest.mark.parametrize("kind", MODELS)
def test_longer_lists_than_those_learned_from_are_refused(kind):
    model = kind().fit([[1, 2]], [[1, 0]])
    with pytest.raises(ValueError, match=r"items\[1\] has 3 positions, but the model was fitted on at most 2"):
        model.perplexity([[1], [1, 2, 3]], [[0], [0, 0, 0]])


@pytest.mark.parametrize("kind", MODELS)
def test_before_fit_there_is_nothing_to_ask(kind):
    for question in (lambda: kind().log_likelihood([[1]], [[0]]), lambda: kind().attractiveness([1])):
        with pytest.raises(RuntimeError, match=f"this {kind.__name__} has learned nothing yet; call fit first"):
            question()


@pytest.mark.parametrize("kind", MODELS)
def test_a_refused_log_changes_nothing_and_a_new_one_replaces_the_old(kind):
    model = kind().fit([[1, 2]] * 3, [[1, 0]] * 3)
    before = model.log_likelihood([[1, 2]], [[1, 0]])
    with pytest.raises(ValueError):
        model.fit([[1, 2, 3]], [[1, 0, float("nan")]])
    assert model.log_likelihood([[1, 2]], [[1, 0]]) == before
    model.fit([[5, 6]] * 9, [[0, 0]] * 9)
    assert model.attractiveness([1]).tolist() == [0.5]
    assert model.log_likelihood([[5, 6]], [[0, 0]]) == kind().fit([[5, 6]] * 9, [[0, 0]] * 9).log_likelihood(
        [[5, 6]], [[0, 0]]
    )
