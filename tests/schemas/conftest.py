"""What records look like, so that a test may ask hypothesis for any of them by its class."""

import numpy as np
from hypothesis import strategies as st

from schemas.records import (
    BucketStamp,
    Candidate,
    Click,
    DeadLetter,
    Impression,
    JoinStart,
    Progress,
    Rollout,
    Rules,
    SampleBatch,
    Snapshot,
    StateArray,
)

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TIME = st.integers(1_500_000_000_000, 1_900_000_000_000) | LONG  # mostly such as the short cut takes
NAME = st.text(max_size=12) | st.text(min_size=60, max_size=80)
REAL = st.floats(allow_nan=False)
VERSION = {"ranked_by_epoch": INT, "ranked_by_offset": st.integers(-1, 10**6) | LONG}


def packed(size):
    return st.binary(min_size=size, max_size=size)


@st.composite
def impressions(draw):
    size, dim = draw(st.integers(1, 50)), draw(st.integers(0, 40))
    return draw(
        st.builds(
            Impression,
            *(NAME, NAME, NAME, NAME, TIME, packed(8 * size), packed(4 * size * dim)),
            rendered=st.integers(0, 60) | INT,
            **VERSION,
            **draw(st.just({}) | notes(size, dim)),
        )
    )


def notes(size, dim):
    """What an impression may go without, each for itself."""
    some = st.integers(0, 60)
    candidates = st.one_of(
        some.map(lambda n: {"candidate_items": packed(8 * n)}),
        some.map(lambda n: {"candidate_items": packed(8 * n), "candidate_contexts": packed(4 * n * dim)}),
    )
    drawn = st.sampled_from([{}, {"propensities": packed(4 * size)}])
    named = st.fixed_dictionaries({}, optional={"split_version": st.just(NAME), "catalogue": st.just(NAME)})
    return st.builds(lambda *parts: {k: v for part in parts for k, v in part.items()}, candidates, drawn, named)


@st.composite
def batches(draw):
    sizes = draw(st.lists(st.integers(1, 12), max_size=6))
    rows, lists, dim = sum(sizes), len(sizes), draw(st.integers(0, 3))
    per_row = [packed(width * rows) for width in (8, 1, 1, 8, 4 * dim)]
    per_list = [packed(width * lists) for width in (1, 8, 4, 8, 4, 8)]
    ids = st.lists(NAME, min_size=lists, max_size=lists)
    later = [NAME, st.just(b"") | packed(8 * lists), st.just(b"") | packed(4 * rows)] if draw(st.booleans()) else []
    return draw(st.builds(SampleBatch, NAME, st.just(dim), *per_row, ids, st.just(bytes(sizes)), *per_list, *later))


@st.composite
def state_arrays(draw):
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    dtype = draw(st.sampled_from(["<i8", ">i8", "<f8", "<f4", "|u1", "|b1"]))
    return StateArray.of(draw(NAME), np.full(shape, draw(st.integers(0, 1)), dtype))


st.register_type_strategy(Impression, impressions())
st.register_type_strategy(Click, st.builds(Click, NAME, NAME, st.integers(0, 60) | INT, TIME, REAL))
st.register_type_strategy(SampleBatch, batches())
st.register_type_strategy(StateArray, state_arrays())
st.register_type_strategy(
    Snapshot,
    st.builds(
        Snapshot,
        *(NAME, NAME, INT, LONG, st.integers(0, 9).flatmap(lambda n: packed(8 * n)), LONG, INT, INT),
        *(REAL, REAL, REAL, st.none() | REAL, REAL, REAL),
        *(NAME, NAME, NAME, INT, st.lists(state_arrays(), max_size=3), NAME, LONG, INT, INT, NAME),
    ),
)
st.register_type_strategy(JoinStart, st.builds(JoinStart, NAME, NAME, st.lists(LONG), st.lists(LONG)))
st.register_type_strategy(Rules, st.builds(Rules, NAME, st.binary(max_size=100), NAME, INT, LONG, LONG))
st.register_type_strategy(
    Rollout, st.builds(Rollout, NAME, INT, st.binary(max_size=100), st.binary(max_size=9), LONG, st.booleans())
)
st.register_type_strategy(Candidate, st.builds(Candidate, st.binary(max_size=100)))
st.register_type_strategy(
    Progress, st.builds(Progress, NAME, INT, LONG, LONG, st.lists(st.builds(BucketStamp, NAME, INT, LONG)), LONG)
)
maybe = st.none() | st.binary(max_size=100)
st.register_type_strategy(DeadLetter, st.builds(DeadLetter, NAME, INT, LONG, LONG, maybe, maybe, NAME))
