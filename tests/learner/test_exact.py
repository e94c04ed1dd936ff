"""Sums far beyond 2⁶³ carry exactly, and corrupt states are refused."""

import numpy as np
import pytest

from learner import C2Ucb
from learner.exact import LIMB_BITS, ExactSums, state_sha256

DIM = 2


def whole(sums, name):
    state = sums.state()
    low, high = state[f"{name}_low"], state[f"{name}_high"]
    assert ((low >= 0) & (low < 2**LIMB_BITS)).all()
    return [int(a) * 2**LIMB_BITS + int(b) for a, b in zip(high, low, strict=True)]


def with_totals(gram, response):
    sums = ExactSums(DIM)
    mask = 2**LIMB_BITS - 1
    cells = {"gram": gram, "response": response}
    sums.restore(
        {
            f"{name}_{limb}": np.array([value & mask if limb == "low" else value >> LIMB_BITS for value in values])
            for name, values in cells.items()
            for limb in ("low", "high")
        }
    )
    return sums


def test_totals_beyond_63_bits_carry_exactly():
    huge = 2**90 + 12345
    sums = with_totals([huge, -huge, 2**64 - 1], [2**LIMB_BITS - 1, -1])
    sums.add(np.array([[1.0, 1.0]]), weight=np.ones(1), reward=np.ones(1))
    one = 2**32
    assert whole(sums, "gram") == [huge + one, -huge + one, 2**64 - 1 + one]
    assert whole(sums, "response") == [2**LIMB_BITS - 1 + one, -1 + one]
    sums.add(np.array([[1.0, 1.0]]), weight=np.ones(1), reward=np.ones(1), sign=np.array([-1]))
    assert whole(sums, "gram") == [huge, -huge, 2**64 - 1]
    assert sums.totals()[0, 0] == huge / 2**32


def test_merging_carries_exactly():
    model, other = C2Ucb(DIM, positions=1), C2Ucb(DIM, positions=1)
    model.restore({"rounds": np.array([3]), **with_totals([2**62, 2**62, -(2**62)], [1, 2]).state()})
    for _ in range(10):
        other.restore(model.state())
        model.merge(other)
    assert whole(model, "gram") == [2**72, 2**72, -(2**72)]
    assert whole(model, "response") == [2**10, 2**11]
    assert model.rounds == 3 * 2**10


def test_many_full_rows_are_exact():
    """Every partial sum of a block is a whole number below 2⁵³, whatever BLAS does with it."""
    rows = 300_000
    sums = ExactSums(DIM)
    context = np.tile([1.0, -1.0], (rows, 1))
    for _ in range(10):  # past the point where limbs are carried
        sums.add(context, weight=np.ones(rows), reward=np.ones(rows))
    assert whole(sums, "gram") == [10 * rows * 2**32, -10 * rows * 2**32, 10 * rows * 2**32]
    assert whole(sums, "response") == [10 * rows * 2**32, -10 * rows * 2**32]


def test_a_state_of_another_shape_is_refused():
    state = ExactSums(3).state()
    with pytest.raises(ValueError, match="gram_low must be 3 int64 numbers, got int64 of shape"):
        ExactSums(DIM).restore(state)
    with pytest.raises(ValueError, match="the state has no 'gram_low'"):
        ExactSums(DIM).restore({})


def test_the_hash_depends_on_settings_names_shapes_and_numbers():
    cells = np.arange(4)
    hashes = {
        state_sha256({"a": 1}, {"x": cells}),
        state_sha256({"a": 2}, {"x": cells}),
        state_sha256({"a": 1}, {"y": cells}),
        state_sha256({"a": 1}, {"x": cells.reshape(2, 2)}),
        state_sha256({"a": 1}, {"x": cells + 1}),
    }
    assert len(hashes) == 5
    assert state_sha256({"b": 1.5, "a": None}, {"x": cells}) == state_sha256({"a": None, "b": 1.5}, {"x": cells})


def test_the_hash_is_pinned():
    """Another machine, numpy or BLAS must come to the same bytes."""
    sums = ExactSums(2)
    sums.add(np.array([[0.1, -0.7], [1 / 3, 1.0]]), weight=np.array([0.3, 0.9]), reward=np.array([1.0, 0.25]))
    rows = [[round(65536 * (0.3 * 0.1)), round(65536 * (0.3 * -0.7))], [round(65536 * (0.9 / 3)), round(65536 * 0.9)]]
    assert whole(sums, "gram") == [sum(z[i] * z[j] for z in rows) for i, j in [(0, 0), (0, 1), (1, 1)]]
    assert state_sha256({"dim": 2}, sums.state()) == "8e6210003c0db9e90943017c9f0ff888dbef4cb8bfd56086d12f9a68eaa7a2a6"
