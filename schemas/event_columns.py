"""Impressions and clicks in columns: many payloads read at once, where they are of the common kind.

That is what ``schemas.fast`` takes its short cut for, with ids of ASCII; anything else, good or bad, is left to be read
one by one. What is read here is held to the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from schemas.fast import ranked_by
from schemas.records import Click, Impression
from schemas.strict import SchemaError

Ints = NDArray[np.int64]
_PAD = bytes(16)  # behind the last payload, so that looking ahead stays inside
_UNUSUAL = 0x81  # in a one-byte varint: more bytes follow, or the number is negative
_SEVENS = np.array([1 << 7 * digit for digit in range(6)])


class Payloads:
    """Payloads that should begin with one header, and a place in each that is read from next.

    Whoever reads beyond the end of one finds bytes of the next, so in the end ``at`` tells whether what was read is its
    own; ``common`` is false for those that are not of the common kind.
    """

    def __init__(self, values: Sequence[bytes], header: bytes) -> None:
        self.text = b"".join((*values, _PAD))
        self.data = np.frombuffer(self.text, np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self.stop = np.cumsum(sizes)
        start = self.stop - sizes
        self.common = (self.window(start, len(header)) == np.frombuffer(header, np.uint8)).all(axis=1)
        self.head = self.at = start + len(header)

    def byte(self) -> Ints:
        """Return the next byte of each."""
        next_bytes = self.data.take(self.at, mode="clip").astype(np.int64)
        self.at = self.at + 1
        return next_bytes

    def window(self, at: Ints, width: int) -> NDArray[np.uint8]:
        """Return so many bytes of each from a place on."""
        starts = np.minimum(at, len(self.data) - width)
        return sliding_window_view(self.data, width)[starts] if width else np.empty((len(at), 0), np.uint8)

    def small(self) -> Ints:
        """Return a number of one byte, 0 to 63."""
        encoded = self.byte()
        self.common &= (encoded & _UNUSUAL) == 0
        return encoded >> 1

    def medium(self) -> Ints:
        """Return a number of up to two bytes, zigzagged."""
        first = self.byte()
        more = self.data.take(self.at, mode="clip").astype(np.int64)
        longer = first > 127
        self.common &= ~longer | ((more > 0) & (more < 128))
        self.at = self.at + longer
        return np.where(longer, first + ((more - 1) << 7), first)

    def time(self) -> Ints:
        """Return a number of six bytes."""
        six = self.window(self.at, 6).astype(np.int64)
        self.common &= (six[:, :5] > 127).all(axis=1) & (six[:, 5] > 0) & (six[:, 5] < 128)
        self.at = self.at + 6
        zigzag: Ints = (six & 127) @ _SEVENS
        return (zigzag >> 1) ^ -(zigzag & 1)

    def skip(self, sizes: Ints) -> tuple[Ints, Ints]:
        """Pass over so many bytes of each, and return where they begin and end."""
        start, self.at = self.at, self.at + sizes
        return start, self.at

    def slices(self, span: tuple[Ints, Ints], which: Ints) -> list[bytes]:
        """Return the bytes of some spans."""
        text = self.text
        return [text[start:stop] for start, stop in zip(span[0][which].tolist(), span[1][which].tolist(), strict=True)]

    def strings(self, span: tuple[Ints, Ints], which: Ints) -> list[str]:
        """Return ASCII texts of some spans."""
        return [text.decode() for text in self.slices(span, which)]

    def block(self, span: tuple[Ints, Ints], which: Ints) -> bytes | NDArray[np.uint8]:
        """Return the bytes of some spans, one after another."""
        widths = (span[1] - span[0])[which]
        if len(which) and (widths == widths[0]).all():
            return self.window(span[0][which], int(widths[0])).reshape(-1)
        return b"".join(self.slices(span, which))


class ImpressionColumns(NamedTuple):
    """Impressions, an entry for each in every column but two, which hold the rows of one list after another."""

    ids: list[str]
    sessions: list[str]
    buckets: list[str]
    shown_at: Ints
    rendered: Ints
    epoch: Ints
    ranked_by: Ints
    size: Ints  # items of each list
    context_bytes: Ints
    items: NDArray[np.int64]
    contexts: NDArray[np.float32]

    @classmethod
    def of(cls, events: Sequence[Impression]) -> ImpressionColumns:
        """Return impressions that were read one by one as columns."""
        numbers = [
            (
                event.shown_at_ms,
                event.rendered,
                event.ranked_by_epoch,
                event.ranked_by_offset,
                event.size,
                len(event.contexts),
            )
            for event in events
        ]
        return cls._make(
            [
                [event.impression_id for event in events],
                [event.session_id for event in events],
                [event.bucket for event in events],
                *np.array(numbers, np.int64).reshape(-1, 6).T.copy(),
                np.frombuffer(b"".join([event.items for event in events]), "<i8"),
                np.frombuffer(b"".join([event.contexts for event in events]), "<f4"),
            ]
        )

    def pick(self, which: Ints) -> ImpressionColumns:
        """Return the impressions at these indices, in their order."""
        if len(which) == len(self.ids):
            return self
        indices = which.tolist()
        columns: list[Any] = [[column[index] for index in indices] for column in self[:3]]
        columns += [column[which] for column in self[3:9]]
        columns.append(_chosen(self.items, self.size, which))
        columns.append(_chosen(self.contexts, self.context_bytes >> 2, which))
        return ImpressionColumns(*columns)

    def merged(self, own: Ints, others: ImpressionColumns, theirs: Ints) -> ImpressionColumns:
        """Return the impressions of both, each at the index that is given for it; both rise."""
        before = np.searchsorted(own, theirs)  # how many of these stand before each of the others
        columns = _merged(zip(self[:9], others[:9], strict=True), own, theirs)
        columns.append(_inserted((self.items, others.items), (self.size, others.size), before))
        widths = self.context_bytes >> 2, others.context_bytes >> 2
        columns.append(_inserted((self.contexts, others.contexts), widths, before))
        return ImpressionColumns(*columns)


def _merged(pairs: Iterable[tuple[Any, Any]], own: Ints, theirs: Ints) -> list[Any]:
    """Return pairs of columns, lists or arrays, each as one with its entries at the indices that are given."""
    order = np.argsort(np.concatenate((own, theirs)), kind="stable")
    columns: list[Any] = []
    for mine, yours in pairs:
        if isinstance(mine, list):
            both = [*mine, *yours]
            columns.append([both[index] for index in order.tolist()])
        else:
            columns.append(np.concatenate((mine, yours))[order])
    return columns


def _chosen(rows: NDArray[Any], sizes: Ints, which: Ints) -> NDArray[Any]:
    """Return the rows of some of the lists that have these sizes."""
    gaps = np.flatnonzero(np.diff(which) != 1)
    if len(gaps) > len(which) // 8:  # here and there one
        chosen = np.zeros(len(sizes), np.bool_)
        chosen[which] = True
        return rows[np.repeat(chosen, sizes)]
    if not len(which):
        return rows[:0]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    starts, stops = ends[which[np.concatenate(([0], gaps + 1))]], ends[which[np.concatenate((gaps, [-1]))] + 1]
    return np.concatenate([rows[start:stop] for start, stop in zip(starts, stops, strict=True)])


def _inserted(rows: tuple[NDArray[Any], NDArray[Any]], sizes: tuple[Ints, Ints], before: Ints) -> NDArray[Any]:
    """Return the rows of lists of these sizes, with those of the others between them."""
    cuts = [0, *np.concatenate(([0], np.cumsum(sizes[0])))[before].tolist(), len(rows[0])]
    ends = [0, *np.cumsum(sizes[1]).tolist()]
    pieces = [rows[0][cuts[0] : cuts[1]]]
    for number in range(len(before)):
        pieces.append(rows[1][ends[number] : ends[number + 1]])
        pieces.append(rows[0][cuts[number + 1] : cuts[number + 2]])
    return np.concatenate(pieces)


def read_impressions(values: Sequence[bytes], header: bytes, end: bytes) -> tuple[Ints, ImpressionColumns]:
    """Return the impressions of the common kind in columns, and which of the payloads they are.

    Those begin with ``header`` and end with ``end``: the optional fields of their schema, all empty.
    """
    walk = Payloads(values, header)
    impression_id, session, bucket, _ = (walk.skip(walk.small()) for _ in range(4))
    head_stop = walk.at
    shown_at = walk.time()
    width = walk.medium()
    items = walk.skip(width >> 1)
    size = walk.medium()
    contexts = walk.skip(size >> 1)
    rendered = walk.small()
    # widths are zigzagged, so twice the bytes: 16 for an item, 8 for a float of each item
    walk.common &= (width & 15 == 0) & (width > 0) & (size % np.maximum(width >> 1, 1) == 0) & (walk.at < walk.stop)
    which = np.flatnonzero(walk.common)
    tails = walk.slices((walk.at, walk.stop), which)
    versions = {tail: _version(tail, end) for tail in set(tails)}
    heads = walk.slices((walk.head, head_stop), which)
    if not b"".join(heads).isascii() or None in versions.values():
        good = [versions[tail] is not None and head.isascii() for tail, head in zip(tails, heads, strict=True)]
        which, tails = which[good], [tail for tail, kept in zip(tails, good, strict=True) if kept]
    ranked: Any = np.array([versions[tail] for tail in tails], np.int64).reshape(-1, 2)
    return which, ImpressionColumns(
        walk.strings(impression_id, which),
        walk.strings(session, which),
        walk.strings(bucket, which),
        shown_at[which],
        rendered[which],
        ranked[:, 0],
        ranked[:, 1],
        width[which] >> 4,
        size[which] >> 1,
        np.frombuffer(walk.block(items, which), "<i8"),
        np.frombuffer(walk.block(contexts, which), "<f4"),
    )


def _version(tail: bytes, end: bytes) -> tuple[int, int] | None:
    if not tail.endswith(end):
        return None
    try:
        return ranked_by(tail[: len(tail) - len(end)])
    except (IndexError, SchemaError):
        return None


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
        return ClickColumns(*_merged(zip(self, others, strict=True), own, theirs))


def read_clicks(values: Sequence[bytes], header: bytes, end: bytes = b"") -> tuple[Ints, ClickColumns]:
    """Return the clicks of the common kind in columns, and which of the payloads they are; they end with a reward."""
    walk = Payloads(values, header)
    impression_id, session = (walk.skip(walk.small()) for _ in range(2))
    head_stop = walk.at
    position, clicked_at = walk.small(), walk.time()
    reward = walk.window(walk.at, 8)
    walk.common &= walk.at + 8 + len(end) == walk.stop
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
