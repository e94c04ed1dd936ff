"""The rules that decide what may enter a sample, and how large an id, an event, a list and a record may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from learner.samples import NO_ITEM
from schemas.event_columns import ImpressionColumns
from schemas.records import Impression

MAX_RECORD_BYTES = 512 * 1024
RECORD_BYTES = 512  # header, bucket name, dimension and the lengths of 13 columns
LIST_BYTES = 1 + 1 + 8 + 4 + 8 + 4 + 8 + 4  # the columns with an entry per list, and the length of its id
MAX_ID_BYTES = 256  # of a list, a session, a user or a bucket
MAX_VERSION_BYTES = 64  # of a split's version, which stands in every samples record
CANDIDATES_BYTES = 256 * 1024  # of the candidates in an impression, ids and contexts, beside all else
SPARE_BYTES = 16 * 1024  # of an event, key included, beyond the items and contexts of the longest list
_QUOTED_CHARS = 80
UNKNOWN = -1  # the number of a bucket that nobody configured


def list_bytes(rows: int, dim: int) -> int:
    """Return how many bytes a list of ``rows`` rows takes in a record, at most; propensities and users add a little."""
    return rows * (18 + 4 * dim) + LIST_BYTES + MAX_ID_BYTES


def event_bytes(rows: int, dim: int) -> int:
    """Return how many bytes the key and value of an event may have, candidates apart, for lists of ``rows`` rows."""
    return rows * (8 + 4 * dim) + SPARE_BYTES


class Limited(Protocol):
    """What the join must know of a bucket."""

    @property
    def name(self) -> str:
        """What impressions call it."""

    @property
    def dim(self) -> int:
        """Length of a context."""

    @property
    def positions(self) -> int:
        """Items of the longest list."""

    @property
    def context_scale(self) -> float:
        """The largest number in a context."""

    @property
    def reward_scale(self) -> float:
        """The largest reward."""


class Limits(NamedTuple):
    """A bucket as far as the join must know it."""

    name: str
    dim: int
    positions: int
    context_scale: float
    reward_scale: float


class Acceptance:
    """The limits that an impression must keep, by bucket; buckets are numbered in the order of their names.

    Parameters
    ----------
    buckets
        What is configured: list length K, dimension d and the scales of contexts and rewards of each bucket.
    future_ms
        How far an event may be dated after its own record's time stamp.
    """

    def __init__(self, buckets: Mapping[str, Limited], *, future_ms: int) -> None:
        if not buckets:
            raise ValueError("the join needs at least one bucket; add [buckets.NAME] to glimpse.toml")
        self.future_ms = future_ms
        self.buckets = [buckets[name] for name in sorted(buckets)]
        self._number = {bucket.name: number for number, bucket in enumerate(self.buckets)}
        self.most_bytes = max(event_bytes(bucket.positions, bucket.dim) for bucket in self.buckets)
        for bucket in self.buckets:
            pair = 2 * list_bytes(bucket.positions, bucket.dim)
            if pair > MAX_RECORD_BYTES:
                raise ValueError(
                    f"bucket {bucket.name!r}: a list of {bucket.positions} items in {bucket.dim} dimensions takes "
                    f"{pair} bytes to correct, more than the {MAX_RECORD_BYTES} of a record; lower positions or dim"
                )
        # UNKNOWN is -1, so the last entry of each column belongs to the unknown bucket
        self._longest = np.array([bucket.positions for bucket in self.buckets] + [0])
        self._row_bytes = np.array([4 * bucket.dim for bucket in self.buckets] + [0])
        self._scale = np.array([_float32_at_most(bucket.context_scale) for bucket in self.buckets], np.float32)

    @property
    def limits(self) -> list[Limits]:
        """The limits of each bucket, by its number."""
        return [Limits(b.name, b.dim, b.positions, b.context_scale, b.reward_scale) for b in self.buckets]

    def as_dict(self) -> dict[str, Any]:
        """Return these rules as JSON can hold them, for ``of_dict``."""
        return {"future_ms": self.future_ms, "buckets": self.limits}

    @classmethod
    def of_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the rules that ``as_dict`` has written.

        >>> rules = Acceptance({"a": Limits("a", 2, 12, 1.0, 5.0)}, future_ms=9)
        >>> Acceptance.of_dict(rules.as_dict()).limits == rules.limits
        True
        """
        return cls({one[0]: Limits(*one) for one in found["buckets"]}, future_ms=found["future_ms"])

    def refusals(self, impressions: Sequence[Impression], timestamps: NDArray[np.int64]) -> dict[int, str]:
        """Return why some impressions are refused, by index."""
        return self.judge(ImpressionColumns.of(impressions), timestamps, dict(enumerate(impressions)))[1]

    def judge(
        self, lists: ImpressionColumns, timestamps: NDArray[np.int64], events: Mapping[int, Impression]
    ) -> tuple[NDArray[np.int64], dict[int, str]]:
        """Return the bucket number of each impression, and why some are refused, by index.

        ``events`` holds those that say more than columns have, and gives any other one that it is asked for.
        """
        find, size = self._number.get, lists.size
        bucket = np.array([find(name, UNKNOWN) for name in lists.buckets], np.int64)
        bad = (bucket == UNKNOWN) | (size > self._longest[bucket])
        bad |= lists.context_bytes != size * self._row_bytes[bucket]
        bad |= (lists.rendered < 1) | (lists.rendered > size) | (lists.shown_at > timestamps + self.future_ms)
        id_chars = np.fromiter(map(len, lists.ids), np.int64, len(lists.ids))
        for index in np.flatnonzero(id_chars > MAX_ID_BYTES // 4).tolist():  # a character takes up to 4 bytes
            bad[index] |= len(lists.ids[index].encode()) > MAX_ID_BYTES
        if len(lists.items) and lists.items.min() == NO_ITEM:
            bad |= np.add.reduceat(np.append(lists.items == NO_ITEM, False), np.cumsum(size) - size) > 0
        refused = {index: self._why(events[index], int(timestamps[index])) for index in np.flatnonzero(bad).tolist()}
        self._judge_values(lists, np.where(bad, UNKNOWN, bucket), events, refused)
        for index, one in events.items():
            noted = one.split_version or one.propensities or one.candidate_items or one.catalogue
            if noted and index not in refused and (wrong := _bad_notes(one)):
                refused[index] = wrong
        return bucket, refused

    def _judge_values(
        self,
        lists: ImpressionColumns,
        bucket: NDArray[np.int64],
        events: Mapping[int, Impression],
        refused: dict[int, str],
    ) -> None:
        for number, settings in enumerate(self.buckets):
            members = np.flatnonzero(bucket == number)
            if not len(members) or not settings.dim:
                continue
            chosen = lists.pick(members)
            values, limit = chosen.contexts, self._scale[number]
            if values.max() <= limit and values.min() >= -limit:  # false for NaN
                continue
            starts = np.concatenate(([0], np.cumsum(chosen.size * settings.dim)[:-1]))
            outside = np.add.reduceat(~(np.abs(values) <= limit), starts)
            for index in members[outside > 0].tolist():
                refused[index] = _outside(events[index], settings)

    def _why(self, impression: Impression, timestamp_ms: int) -> str:
        number = self._number.get(impression.bucket)
        if number is None:
            return f"unknown bucket {short(impression.bucket)!r}; configured are {', '.join(self._number)}"
        bucket, size = self.buckets[number], impression.size
        if size > bucket.positions:
            return f"a list of {size} items is longer than the {bucket.positions} of bucket {bucket.name!r}"
        if len(impression.contexts) != 4 * size * bucket.dim:
            found = len(impression.contexts) / (4 * size)
            return f"contexts have {found:g} numbers an item; bucket {bucket.name!r} wants {bucket.dim}"
        if len(impression.impression_id.encode()) > MAX_ID_BYTES:
            return f"an impression id of {len(impression.impression_id.encode())} bytes; at most {MAX_ID_BYTES}"
        if (impression.items_array == NO_ITEM).any():
            return f"item {NO_ITEM}, which stands for no item; take another id"
        if not 1 <= impression.rendered <= size:
            return f"{impression.rendered} positions rendered of a list of {size}; wanted 1 to {size}"
        ahead = (impression.shown_at_ms - timestamp_ms) / 1000
        return (
            f"shown {ahead:g} s after its own record; at most {self.future_ms / 1000:g} s; check the producer's clock"
        )


def short(name: str) -> str:
    """Return a name that may be quoted: what bad input calls itself can be as long as a record."""
    return name if len(name) <= _QUOTED_CHARS else f"{name[:_QUOTED_CHARS]}…"


def _bad_notes(impression: Impression) -> str:
    """Return what is wrong with the fields that an impression may go without, or nothing."""
    if (size := len(impression.split_version.encode())) > MAX_VERSION_BYTES:
        return f"a split_version of {size} bytes; at most {MAX_VERSION_BYTES}"
    if (size := len(impression.catalogue.encode())) > MAX_ID_BYTES:
        return f"a catalogue of {size} bytes; at most {MAX_ID_BYTES}"
    if (size := len(impression.candidate_items) + len(impression.candidate_contexts)) > CANDIDATES_BYTES:
        return f"candidates of {size} bytes; at most {CANDIDATES_BYTES}; log fewer, or name their catalogue"
    drawn = impression.propensities_array
    if len(drawn) and not (drawn.min() > 0 and drawn.max() <= 1):  # NaN fails too
        position = int(np.flatnonzero(~((drawn > 0) & (drawn <= 1)))[0])
        return f"propensity {drawn[position]:g} of position {position + 1} is not above 0 and at most 1"
    return ""


def _outside(impression: Impression, bucket: Limited) -> str:
    contexts = impression.contexts_array
    row, column = np.argwhere(~(np.abs(contexts) <= _float32_at_most(bucket.context_scale)))[0]
    return (
        f"context {contexts[row, column]:g} of position {row + 1}, feature {column + 1} is not within "
        f"±{bucket.context_scale:g}, the context_scale of bucket {bucket.name!r}"
    )


def _float32_at_most(limit: float) -> np.float32:
    """Return the largest float32 that is not above ``limit``, so that comparing in float32 equals comparing exactly.

    >>> float(np.float32(0.1)) > 0.1, float(_float32_at_most(0.1)) <= 0.1
    (True, True)
    """
    nearest = np.float32(limit)
    return np.nextafter(nearest, np.float32(-np.inf)) if float(nearest) > limit else nearest
