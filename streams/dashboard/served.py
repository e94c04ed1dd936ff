"""Which of the versions that lists name can be true, and when each was first used (pure)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPOCH = 1 << 44  # offsets lie below, so that a version (epoch, offset) is one number that grows
NEVER = np.iinfo(np.int64).max
LATER, UNKNOWN = -1, -2

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Known:
    """A bucket's snapshots in the order of their versions, and what they bear out."""

    epochs: Ints
    versions: Ints
    times: Ints  # learned at, published at
    tolerance_ms: int

    @classmethod
    def of(cls, snapshots: Ints, tolerance_ms: int) -> Known:
        """Take rows of epoch, offset, learned at, published at."""
        epochs = np.unique(snapshots[:, 0])
        versions = numbers(epochs, snapshots)
        order = np.argsort(versions, kind="stable")
        return cls(epochs, versions[order], snapshots[order, 2:], tolerance_ms)

    def numbered(self, lists: Ints) -> Ints:
        """Return lists (epoch, offset, shown at) as rows of version and shown at."""
        return np.column_stack((numbers(self.epochs, lists), lists[:, 2]))

    def is_before(self, lists: Ints) -> NDArray[np.bool_]:
        """Return which lists name a version that is newer than all that are known."""
        return np.asarray(numbers(self.epochs, lists) > (self.versions[-1] if len(self.versions) else -1))

    def bears_out(self, lists: Ints) -> NDArray[np.bool_]:
        """Return which lists a known version, or one between two, can have ranked."""
        if not len(self.versions):
            return np.zeros(len(lists), bool)
        version = numbers(self.epochs, lists)
        at = np.searchsorted(self.versions, version, side="right") - 1  # the last known one that is no newer
        after = (at < 0) | (lists[:, 2] >= self.times[at, 1] - self.tolerance_ms)
        return np.asarray(after & (version <= self.versions[-1]))


class FirstShown:
    """When each version has ranked a list for the first time; the newest versions, at most so many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.new: list[tuple[int, int, int]] = []  # not believed yet
        self.rows = np.empty((0, 3), np.int64)  # epoch, offset, shown at

    def take(self, rows: Ints) -> None:
        """Take lists that are believed."""
        if len(rows):
            rows = np.concatenate((self.rows, rows))
            rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
            first = np.ones(len(rows), bool)
            first[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
            rows = rows[first]
            self.rows = rows[np.argsort(rows[:, 2], kind="stable")[-self.most :]]


def numbers(epochs: Ints, rows: Ints) -> Ints:
    """Return versions (epoch, offset, …) as numbers that grow with them, given all ``epochs`` that are known, sorted.

    >>> rows = np.array([[1, 7], [1, 8], [20261116, 0], [2**31 - 1, 2**62], [5, 3]])
    >>> (np.diff(numbers(np.array([1, 20261116]), rows)) > 0).tolist()
    [True, True, True, False]
    """
    ranks = np.searchsorted(epochs, rows[:, 0])
    known = np.append(epochs, -1)[ranks] == rows[:, 0]
    return np.where(known, (ranks + 1) * EPOCH + np.clip(rows[:, 1], -1, EPOCH - 1), (ranks + 1) * EPOCH - 1)


def first_served(versions: Ints, lists: Ints) -> Ints:
    """Return for each version when the first of the lists (version, shown at) was shown that it or a newer one has
    ranked, NEVER for none."""
    order = np.argsort(lists[:, 0], kind="stable")
    earliest = np.minimum.accumulate(np.append(lists[order, 1], NEVER)[::-1])[::-1]
    return np.asarray(earliest[np.searchsorted(lists[order, 0], versions)])


def first_holding(versions: Ints, published: Ints, offsets: Ints) -> Ints:
    """Return for each sample the index of the snapshot that held it first: LATER when it is still to come, UNKNOWN when
    it may have been one that is gone from the log."""
    holding = np.full(len(offsets), LATER)
    at = np.full(len(offsets), NEVER)
    unknown = np.zeros(len(offsets), bool)
    for epoch in np.unique(versions // EPOCH):
        rows = np.flatnonzero(versions // EPOCH == epoch)
        index = np.searchsorted(versions[rows] % EPOCH, offsets, side="right")
        unknown |= index == 0
        held = np.flatnonzero((index > 0) & (index < len(rows)))
        row = rows[index[held]]
        sooner = published[row] < at[held]
        holding[held[sooner]], at[held[sooner]] = row[sooner], published[row][sooner]
    holding[unknown & (holding == LATER)] = UNKNOWN
    return holding
