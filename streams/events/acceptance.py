"""The limits of each bucket, and how large an id, an event, a list and a record may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

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
        What is configured: list length K, dimension d and the scales of contexts and rewards of each bucket. None at
        all: what rules say of buckets is not judged.
    future_ms
        How far an event may be dated after its own record's time stamp.
    """

    def __init__(self, buckets: Mapping[str, Limited], *, future_ms: int) -> None:
        self.future_ms = future_ms
        self.buckets = [buckets[name] for name in sorted(buckets)]
        self._number = {bucket.name: number for number, bucket in enumerate(self.buckets)}
        # the key and the value of an event, candidates apart
        self.most_bytes = max((b.positions * (8 + 4 * b.dim) + SPARE_BYTES for b in self.buckets), default=0)
        for bucket in self.buckets:
            pair = 2 * list_bytes(bucket.positions, bucket.dim)
            if pair > MAX_RECORD_BYTES:
                raise ValueError(
                    f"bucket {bucket.name!r}: a list of {bucket.positions} items in {bucket.dim} dimensions takes "
                    f"{pair} bytes to correct, more than the {MAX_RECORD_BYTES} of a record; lower positions or dim"
                )
        # UNKNOWN is -1, so the last entry of each column belongs to the unknown bucket
        self.longest = np.array([bucket.positions for bucket in self.buckets] + [0])
        self.row_bytes = np.array([4 * bucket.dim for bucket in self.buckets] + [0])
        self.scales = np.array([_float32_at_most(bucket.context_scale) for bucket in self.buckets], np.float32)
        self.smallest_scale = self.scales.min(initial=np.inf)

    def numbers(self, names: Iterable[str]) -> NDArray[np.int64]:
        """Return the number of each bucket, UNKNOWN for what is not configured."""
        find = self._number.get
        return np.array([find(name, UNKNOWN) for name in names], np.int64)

    @property
    def limits(self) -> list[Limits]:
        """The limits of each bucket, by its number."""
        return [
            Limits(bucket.name, bucket.dim, bucket.positions, bucket.context_scale, bucket.reward_scale)
            for bucket in self.buckets
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return these limits as JSON can hold them, for ``of_dict``."""
        return {"future_ms": self.future_ms, "buckets": self.limits}

    @classmethod
    def of_dict(cls, limits: Mapping[str, Any]) -> Self:
        """Return the limits that ``as_dict`` has written.

        >>> rules = Acceptance({"a": Limits("a", 2, 12, 1.0, 5.0)}, future_ms=9)
        >>> Acceptance.of_dict(rules.as_dict()).limits == rules.limits
        True
        """
        return cls({bucket[0]: Limits(*bucket) for bucket in limits["buckets"]}, future_ms=limits["future_ms"])


def short(name: str) -> str:
    """Return a name that may be quoted: what bad input calls itself can be as long as a record."""
    return name if len(name) <= _QUOTED_CHARS else f"{name[:_QUOTED_CHARS]}…"


def _float32_at_most(limit: float) -> np.float32:
    """Return the largest float32 that is not above ``limit``, so that comparing in float32 equals comparing exactly.

    >>> float(np.float32(0.1)) > 0.1, float(_float32_at_most(0.1)) <= 0.1
    (True, True)
    """
    nearest = np.float32(limit)
    return np.nextafter(nearest, np.float32(-np.inf)) if float(nearest) > limit else nearest
