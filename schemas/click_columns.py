"""Clicks in columns: many payloads read at once, where they are of the common kind, as ``schemas.fast`` reads one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.known import SCHEMAS, writer_of
from schemas.payloads import Payloads
from schemas.records import Click

Ints = NDArray[np.int64]
_HEADER = writer_of(SCHEMAS[Click]).header


class ClickColumns(NamedTuple):
    """Clicks, an entry for each in every column."""

    ids: list[str]
    sessions: list[str]
    position: Ints
    clicked_at: Ints
    reward: NDArray[np.float64]

    @classmethod
    def of(cls, events: Sequence[Click]) -> ClickColumns:
        """Return clicks that were read one by one as columns."""
        return cls(
            [event.impression_id for event in events],
            [event.session_id for event in events],
            np.array([event.position for event in events], np.int64),
            np.array([event.clicked_at_ms for event in events], np.int64),
            np.array([event.reward for event in events], np.float64),
        )

    def merged(self, own: Ints, others: ClickColumns, theirs: Ints) -> ClickColumns:
        """Return the clicks of both, each at the index that is given for it."""
        order = np.argsort(np.concatenate((own, theirs)), kind="stable")
        pairs: list[Any] = list(zip(self, others, strict=True))
        columns: list[Any] = []
        for mine, yours in pairs[:2]:
            both = [*mine, *yours]
            columns.append([both[index] for index in order.tolist()])
        columns += [np.concatenate(pair)[order] for pair in pairs[2:]]
        return ClickColumns(*columns)


def read_clicks(values: Sequence[bytes]) -> tuple[Ints, ClickColumns]:
    """Return the clicks of the common kind in columns, and which of the payloads they are."""
    walk = Payloads(values, _HEADER)
    impression_id, session = (walk.skip(walk.small()) for _ in range(2))
    head_stop = walk.at
    position, clicked_at = walk.small(), walk.time()
    reward = walk.window(walk.at, 8)
    walk.common &= walk.at + 8 == walk.stop
    which = np.flatnonzero(walk.common)
    heads = walk.slices((walk.head, head_stop), which)
    if not b"".join(heads).isascii():
        which = which[[head.isascii() for head in heads]]
    return which, ClickColumns(
        walk.strings(impression_id, which),
        walk.strings(session, which),
        position[which],
        clicked_at[which],
        np.frombuffer(reward[which].tobytes(), "<f8"),
    )
