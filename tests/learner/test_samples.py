"""The batch: made from clicks, cut, joined, and refused with field, index and value."""

import numpy as np
import pytest

from learner import Samples
from learner.samples import NO_ITEM

NAN, INF = float("nan"), float("inf")


def good(**changes):
    columns = {
        "item": np.array([7, 8, 9]),
        "position": np.array([1, 2, 1]),
        "last_click": np.array([0, 1, 0]),
        "reward": np.array([1.0, 0.0, 0.0]),
        "context": np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]),
        "size": np.array([2, 1]),
        "list_id": np.array(["a", "b"]),
        "sign": np.array([1, -1]),
    }
    return Samples(**columns | changes)


def test_from_clicks_lays_lists_out_row_after_row():
    contexts = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    samples = Samples.from_clicks(contexts, [[1, 0, 1], [0, 0, 0]], items=[[1, 2, 3], [4, 5, 6]])
    assert samples.item.tolist() == [1, 2, 3, 4, 5, 6]
    assert samples.position.tolist() == [1, 2, 3, 1, 2, 3]
    assert samples.last_click.tolist() == [0, 1, 1, 0, 0, 0]
    assert samples.reward.tolist() == [1, 0, 1, 0, 0, 0]
    assert samples.context.dtype == np.float32
    assert samples.context.tolist() == contexts.reshape(6, 2).tolist()
    assert (len(samples), samples.rows, samples.dim) == (2, 6, 2)


def test_only_rendered_positions_enter():
    samples = Samples.from_clicks(np.zeros((3, 3, 1)), [[0, 1, 0]] * 3, sizes=[3, 0, 2])
    assert samples.size.tolist() == [3, 0, 2]
    assert samples.position.tolist() == [1, 2, 3, 1, 2]
    assert samples.item.tolist() == [NO_ITEM] * 5


def test_slices_are_lists_and_concatenate_back():
    samples = good()
    parts = [samples[:1], samples[1:]]
    assert parts[1].item.tolist() == [9]
    assert parts[1].sign.tolist() == [-1]
    joined = Samples.concat(parts)
    for name in ("item", "position", "last_click", "reward", "context", "size", "list_id", "sign"):
        assert np.array_equal(getattr(joined, name), getattr(samples, name)), name
    assert len(samples[:0]) == len(samples[5:]) == 0


REFUSED = {
    "NaN": (
        {"context": np.array([[0.1, 0.2], [0.3, NAN], [0.5, 0.6]])},
        r"context\[1, 1\] is nan; features are finite",
    ),
    "infinity": ({"context": np.array([[0.1, 0.2], [0.3, 0.4], [-INF, 0.6]])}, r"context\[2, 0\] is -inf"),
    "one row too few": ({"context": np.zeros((2, 2))}, r"context must be one row of numbers for each of 3 items"),
    "position 0": ({"position": np.array([1, 0, 1])}, r"position\[1\] is 0; positions run from 1 to 50"),
    "position 51": ({"position": np.array([1, 2, 51])}, r"position\[2\] is 51"),
    "a click at its own row": ({"last_click": np.array([0, 2, 0])}, r"last_click\[1\] is 2; .* above position 2"),
    "a negative click": ({"last_click": np.array([0, 1, -1])}, r"last_click\[2\] is -1"),
    "a negative reward": ({"reward": np.array([1.0, -0.5, 0.0])}, r"reward\[1\] is -0.5; a reward is finite and ≥ 0"),
    "no number for a reward": ({"reward": np.array([NAN, 0.0, 0.0])}, r"reward\[0\] is nan"),
    "an endless reward": ({"reward": np.array([0.0, INF, 0.0])}, r"reward\[1\] is inf"),
    "sign 0": ({"sign": np.array([1, 0])}, r"sign\[1\] is 0; a list is learned \(\+1\) or taken back"),
    "sizes that miss rows": ({"size": np.array([1, 1])}, r"size must add up to the 3 rows"),
    "a negative size": ({"size": np.array([4, -1])}, r"size must add up to the 3 rows and hold no negative"),
    "one id too few": ({"list_id": np.array(["a"])}, r"list_id must have 2 entries"),
    "broken positions": ({"position": np.array([1.0, 2.5, 1.0])}, r"position must be whole numbers, got float64"),
}


@pytest.mark.parametrize("changes, message", REFUSED.values(), ids=REFUSED)
def test_bad_columns_are_refused_by_name_index_and_value(changes, message):
    good()
    with pytest.raises(ValueError, match=message):
        good(**changes)


def test_bad_shapes_of_clicks_are_refused():
    with pytest.raises(ValueError, match=r"got \(2, 3\) and \(2, 3\)"):
        Samples.from_clicks(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"items must have shape \(2, 3\)"):
        Samples.from_clicks(np.zeros((2, 3, 1)), np.zeros((2, 3)), items=[[1, 2, 3]])
    with pytest.raises(ValueError, match="sizes must hold 2 counts from 0 to 3"):
        Samples.from_clicks(np.zeros((2, 3, 1)), np.zeros((2, 3)), sizes=[3, 4])
    with pytest.raises(ValueError, match="the same number of features, got \\[1, 2\\]"):
        Samples.concat([good(), Samples.from_clicks(np.zeros((1, 1, 1)), [[0]])])
    with pytest.raises(ValueError, match="without a step"):
        good()[::2]
