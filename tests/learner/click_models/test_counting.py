import numpy as np
import pytest

from learner.click_models import CM, DCM

pytestmark = pytest.mark.filterwarnings("ignore:.*no list reached")


def is_read_by_cm(clicks, rank):
    return not any(clicks[:rank])


def is_read_by_dcm(clicks, rank):
    return any(clicks[rank:]) or not any(clicks)


READ = {"CM": (CM, is_read_by_cm), "DCM": (DCM, is_read_by_dcm)}


@pytest.mark.parametrize("kind, is_read", READ.values(), ids=READ)
@pytest.mark.parametrize("lists, longest", [(1, 5), (30, 1), (80, 9)])
def test_attractiveness_counts_the_rows_that_were_read(twin, kind, is_read, lists, longest):
    items, clicks, queries = twin.random_log(21, lists=lists, longest=longest)
    model = kind().fit(items, clicks, queries)
    expected = twin.count(items, clicks, queries, is_read)
    got = model.attractiveness([item for _, item in expected], [query for query, _ in expected])
    np.testing.assert_allclose(got, list(expected.values()), rtol=1e-15)


def test_dcm_continuation_counts_clicks_with_another_below(twin):
    items, clicks, queries = twin.random_log(22, lists=80, longest=6)
    model = DCM().fit(items, clicks, queries)
    expected = [twin.continuation(clicks, rank) for rank in range(6)]
    np.testing.assert_allclose(model.continuation, expected, rtol=1e-15)
    assert model.observations.tolist() == [sum(row[k] for row in clicks if len(row) > k) for k in range(6)]


def test_dcm_by_hand():
    model = DCM().fit([[1, 2, 3], [1, 2, 3]], [[1, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(model.attractiveness([1, 2, 3]), [3 / 4, 1 / 3, 2 / 3])  # 2 and 3 were read once
    np.testing.assert_allclose(model.continuation, [2 / 4, (2 / 4 + 1 / 3) / 2, 1 / 3])  # position 2 had no click


def test_dcm_positions_without_a_click_have_the_mean_of_the_others_and_are_said():
    with pytest.warns(UserWarning, match="DCM: no list reached 1 of the continuation values"):
        model = DCM().fit([[1, 2, 3]], [[1, 0, 1]])
    assert model.unobserved == 1
    assert model.observations.tolist() == [1, 0, 1]
    with pytest.warns(UserWarning, match="DCM: no list reached 2 of the continuation values"):
        silent = DCM().fit([[1, 2]], [[0, 0]])
    assert silent.continuation.tolist() == [0.5, 0.5]


def test_a_list_without_clicks_teaches_that_nothing_attracted():
    for kind in (CM, DCM):
        np.testing.assert_allclose(kind().fit([[1, 2]] * 8, [[0, 0]] * 8).attractiveness([1, 2]), [0.1, 0.1])


def test_cm_learns_nothing_below_the_first_click():
    model = CM().fit([[1, 2]] * 8, [[1, 1]] * 8)
    np.testing.assert_allclose(model.attractiveness([1, 2]), [0.9, 0.5])


def test_cm_recovers_the_attractiveness_that_made_the_lists():
    rng = np.random.default_rng(23)
    true = np.array([0.6, 0.4, 0.2, 0.1, 0.05])
    items = np.argsort(rng.random((100_000, 5)), axis=1)
    attracted = rng.random(items.shape) < true[items]
    clicks = attracted & (np.cumsum(attracted, axis=1) == 1)
    np.testing.assert_allclose(CM().fit(items, clicks).attractiveness(range(5)), true, rtol=0, atol=0.01)
