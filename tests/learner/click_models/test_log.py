import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.click_models import CM, UBM
from learner.click_models.log import read_log

pytestmark = pytest.mark.filterwarnings("ignore:.*no list reached")

NAN = float("nan")

FORMS = {
    "lists": ([[4, 5, 6], [5, 4]], [[0, 1, 0], [1, 0]], {}),
    "tuples of rewards": (((4, 5, 6), (5, 4)), ((0.0, 2.5, 0.0), (0.1, 0.0)), {}),
    "arrays of different length": (
        [np.array([4, 5, 6]), np.array([5, 4])],
        [np.array([False, True, False]), np.array([True, False])],
        {},
    ),
    "lists and arrays": ([[4, 5, 6], np.array([5, 4])], [np.array([0, 1, 0]), [True, False]], {}),
    "an object array of lists": (
        np.array([[4, 5, 6], [5, 4]], dtype=object),
        np.array([[0, 1, 0], [1, 0]], dtype=object),
        {},
    ),
    "a padded object array": (
        np.array([[4, 5, 6], [5, 4, None]], dtype=object),
        np.array([[0, True, 0], [0.5, 0, None]], dtype=object),
        {"sizes": [3, 2]},
    ),
    "padded": (
        np.array([[4, 5, 6, -1], [5, 4, -1, -1]]),
        np.array([[0, 1, 0, NAN], [1, 0, NAN, 1]]),
        {"sizes": [3, 2]},
    ),
    "small unsigned": (
        np.array([[4, 5, 6], [5, 4, 0]], np.uint8),
        np.array([[0, 1, 0], [1, 0, 0]], np.int8),
        {"sizes": np.array([3, 2])},
    ),
}


@pytest.mark.parametrize("items, clicks, options", FORMS.values(), ids=FORMS)
def test_every_form_of_lists_is_read_the_same(items, clicks, options):
    log = read_log(items, clicks, **options)
    assert log.items.tolist() == [4, 5, 6, 5, 4]
    assert log.sizes.tolist() == [3, 2]
    assert log.clicks.tolist() == [[False, True, False], [True, False, False]]
    assert log.shown.tolist() == [[True, True, True], [True, True, False]]
    assert (len(log), log.positions) == (2, 3)


TEXT = {
    "lists": [["a", "bb"], ["bb", "ccc"]],
    "array": np.array([["a", "bb"], ["bb", "ccc"]]),
    "variable width": np.array([["a", "bb"], ["bb", "ccc"]], dtype=np.dtypes.StringDType()),
    "arrays": [np.array(["a", "bb"]), np.array(["bb", "ccc"])],
}


@pytest.mark.parametrize("items", TEXT.values(), ids=TEXT)
def test_ids_may_be_strings(items):
    model = CM().fit(items, [[0, 1], [1, 0]], np.array(["q", "r"]))
    np.testing.assert_allclose(
        model.attractiveness(["a", "bb", "bb", "ccc"], ["q", "q", "r", "r"]), [1 / 3, 2 / 3, 2 / 3, 1 / 2]
    )


def test_ids_of_any_size_and_sign_are_kept_apart():
    ids = [-(2**63), -1, 0, 2**63 - 1]
    clicks = [[1, 0, 0, 0]] * 3
    model = UBM(iterations=3).fit([ids] * 3, clicks, [2**62, -(2**62), 0])
    renamed = UBM(iterations=3).fit([["a", "b", "c", "d"]] * 3, clicks, ["z", "x", "y"])
    np.testing.assert_allclose(
        model.attractiveness(ids, [2**62] * 4), renamed.attractiveness(list("abcd"), ["z"] * 4), rtol=1e-14
    )


def test_an_item_may_stand_twice_in_a_list():
    assert CM().fit([[1, 1, 1]], [[0, 0, 1]]).attractiveness([1]).tolist() == [2 / 5]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_padding_is_not_looked_at(data):
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    items = rng.integers(0, 5, (len(sizes), 7))
    clicks = rng.integers(0, 2, (len(sizes), 7))
    ragged = [row[:size].tolist() for row, size in zip(items, sizes, strict=True)]
    clicked = [row[:size].tolist() for row, size in zip(clicks, sizes, strict=True)]
    one, other = UBM(iterations=3).fit(ragged, clicked), UBM(iterations=3).fit(items, clicks, sizes=sizes)
    assert one.examination.tobytes() == other.examination.tobytes()
    assert one.observations.sum() == sum(sizes)
    assert one.log_likelihood(ragged, clicked) == other.log_likelihood(items, clicks, sizes=sizes)


WRONG = {
    "no lists": ([], [], {}, "items has no lists; at least one is needed"),
    "no rows in an array": (np.empty((0, 3), int), np.empty((0, 3), int), {}, "items has no lists"),
    "an empty list": ([[1], []], [[0], []], {}, r"items\[1\] has 0 positions; leave empty lists out"),
    "a size of zero": ([[1]], [[0]], {"sizes": [0]}, r"items\[0\] has 0 positions"),
    "51 positions": ([[1], [2] * 51], [[0], [0] * 51], {}, r"items\[1\] has 51 positions; at most 50 can be used"),
    "fewer clicks": (
        [[1, 2], [3, 4]],
        [[0, 1], [0]],
        {},
        r"clicks\[1\] has 1 entries, items\[1\] has 2; they must agree",
    ),
    "fewer lists of clicks": ([[1], [2]], [[0]], {}, "clicks has 1 lists, items has 2; give one for each"),
    "one dimension": ([1, 2], [[0], [1]], {}, r"items\[0\] must be a list of values, one per position, got 1"),
    "a string as list": (["ab", "cd"], [[0, 1], [1, 0]], {}, r"items\[0\] must be a list of values.*got 'ab'"),
    "three dimensions": (
        np.zeros((1, 1, 1), int),
        [[0]],
        {},
        r"items must be \(lists, positions\), got shape \(1, 1, 1\)",
    ),
    "nan click": (
        [[1, 2], [3]],
        [[0, 1], [NAN]],
        {},
        r"clicks\[1\]\[0\] is nan; a click must be 0 or a finite number above",
    ),
    "negative click": ([[1, 2]], np.array([[0, -1]]), {}, r"clicks\[0\]\[1\] is -1; a click must be 0"),
    "infinite click": ([[1, 2]], [[0, np.inf]], {}, r"clicks\[0\]\[1\] is inf"),
    "a word as click": ([[1, 2]], [[0, "yes"]], {}, r"clicks\[0\]\[1\] is 'yes'; a click must be a number, 0 for none"),
    "no click at all": ([[1, 2]], [[None, 0]], {}, r"clicks\[0\]\[0\] is None; a click must be a number"),
    "a list as click": ([[1, 2]], [[0, [1]]], {}, "clicks must hold one number per position"),
    "nan item": (
        np.array([[1.0, NAN]]),
        [[0, 1]],
        {},
        r"items\[0\]\[0\] is 1.0; ids must be all integers or all strings",
    ),
    "a missing item": ([[1], [2, None]], [[0], [0, 1]], {}, r"items\[1\]\[1\] is None; ids must be all integers"),
    "mixed items": (
        [[1, 2], [3, "4"]],
        [[0, 1], [0, 0]],
        {},
        r"items\[1\]\[1\] is '4'; ids must be all integers or all",
    ),
    "true as item": ([[True]], [[0]], {}, r"items\[0\]\[0\] is True; ids must be all integers"),
    "too large an item": ([[1, 2**63]], [[0, 0]], {}, r"items\[0\]\[1\] is 9223372036854775808; integer ids must fit"),
    "too large an unsigned": (
        np.array([[2**64 - 1]], np.uint64),
        [[0]],
        {},
        r"items\[0\]\[0\] is 18446744073709551615",
    ),
    "fewer queries": ([[1], [2]], [[0], [1]], {"queries": ["a"]}, "queries has 1 entries, items has 2 lists"),
    "nan query": ([[1], [2]], [[0], [1]], {"queries": [NAN, 1.0]}, r"queries\[0\] is nan; ids must be all integers"),
    "one word for all queries": (
        [[1], [2]],
        [[0], [1]],
        {"queries": "ab"},
        "queries must be a sequence of ids, got one",
    ),
    "a table of queries": (
        [[1]],
        [[0]],
        {"queries": np.array([[1]])},
        r"queries must have one dimension, got shape \(1, 1\)",
    ),
    "size beyond the columns": ([[1, 2]], [[0, 0]], {"sizes": [3]}, r"sizes\[0\] is 3, but items has 2 columns"),
    "a size too few": (
        [[1], [2]],
        [[0], [0]],
        {"sizes": [1]},
        r"sizes must be 2 integers, one per list, got int64 of shape",
    ),
    "half a size": ([[1], [2]], [[0], [0]], {"sizes": [1, 0.5]}, "sizes must be 2 integers, one per list, got float64"),
}


@pytest.mark.parametrize("items, clicks, options, reason", WRONG.values(), ids=WRONG)
def test_a_bad_log_is_refused_by_name(items, clicks, options, reason):
    if "sizes" in options:
        items, clicks = np.array(items), np.array(clicks)
    with pytest.raises(ValueError, match=reason):
        UBM().fit(items, clicks, **options)
    model = UBM().fit([[1, 2]], [[0, 1]], None if "queries" not in options else ["a"])
    with pytest.raises(ValueError, match=reason):
        model.log_likelihood(items, clicks, **options)


def test_sizes_belong_to_arrays():
    with pytest.raises(
        ValueError, match=r"sizes belong to \(lists, positions\) arrays, but items is a sequence of lists"
    ):
        read_log([[1, 2], [3]], [[0, 1], [0]], sizes=[2, 1])


def test_ids_and_queries_must_be_those_of_fit():
    with_queries = CM().fit([[1]], [[1]], ["a"])
    without = CM().fit([["x"]], [[1]])
    cases = (
        (lambda: with_queries.perplexity([[1]], [[0]]), "queries must be given, as they were to fit"),
        (lambda: without.perplexity([["x"]], [[0]], [1]), "queries were not given to fit"),
        (lambda: with_queries.perplexity([["1"]], [[0]], ["a"]), "items must be integers as in fit, got '1'"),
        (lambda: with_queries.attractiveness([1], [7]), "queries must be strings as in fit, got"),
        (lambda: without.attractiveness([7]), "items must be strings as in fit, got"),
        (lambda: with_queries.attractiveness([1, 1], ["a"]), "queries has 1 entries, items has 2; give one for each"),
    )
    for question, reason in cases:
        with pytest.raises(ValueError, match=reason):
            question()
