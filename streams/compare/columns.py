"""Net sums of each user in each minute, bucket by bucket, out of sample batches in any order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from learner.browsing import MAX_POSITIONS
from schemas.records import SampleBatch

MINUTE_MS = 60_000
ROWS, HITS = range(2)  # fields by position: rows shown, clicks
COMPACT_AT = 1 << 18  # rows that wait before they are added up
LISTS, CLICKS, CLICKED = range(3)  # fields of an amount
_MIX = np.uint64(0x9E3779B97F4A7C15)  # numbers of lists that stand for users follow one another; hashes do not


class UserSample:
    """One of every 2^halvings users, drawn by hash alone, so that it is as good as drawn by chance.

    >>> some = UserSample()
    >>> users = np.arange(1000, dtype=np.uint64)
    >>> int(some.has(users).sum())
    1000
    >>> some.halvings = 2
    >>> 200 < int(some.has(users).sum()) < 300
    True
    """

    def __init__(self) -> None:
        self.halvings = 0

    def has(self, users: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which users are in the sample."""
        if not self.halvings:
            return np.ones(len(users), bool)
        mixed = users * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX
        return np.asarray(mixed >> np.uint64(64 - self.halvings) == 0)


@dataclass(frozen=True, slots=True)
class Arm:
    """What is compared: a bucket under one version of the split of users."""

    bucket: str
    split: str


@dataclass(frozen=True, slots=True)
class UserMinutes:
    """Rows that are unique in (user, minute), of one arm."""

    user: NDArray[np.uint64]
    minute: NDArray[np.int64]
    amounts: NDArray[np.int64]  # (rows, fields)

    @classmethod
    def empty(cls, fields: int) -> UserMinutes:
        """Return no rows."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty((0, fields), np.int64))

    def added_up(self) -> UserMinutes:
        """Return one row for each user and minute; those that came to nothing are dropped."""
        if not len(self.user):
            return self
        order = np.lexsort((self.minute, self.user))
        user, minute = self.user[order], self.minute[order]
        first = np.ones(len(user), bool)
        first[1:] = (user[1:] != user[:-1]) | (minute[1:] != minute[:-1])
        starts = np.flatnonzero(first)
        amounts = np.add.reduceat(self.amounts[order], starts, axis=0)
        kept = amounts.any(axis=1)
        return UserMinutes(user[starts][kept], minute[starts][kept], amounts[kept])


@dataclass(slots=True)
class ArmSums:
    """All that was counted of one arm; a list with sign −1 takes back what it had added, and where."""

    fields: int
    sample: UserSample = field(default_factory=UserSample)
    rows: UserMinutes = field(init=False)
    positions: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, MAX_POSITIONS + 1), np.int64))
    newest_ms: int = 0
    userless: int = 0  # lists that no user is told of
    _waiting: list[UserMinutes] = field(default_factory=list)
    _sampled: int = 0  # the sample's halvings when the rows were thinned last

    def __post_init__(self) -> None:
        self.rows = UserMinutes.empty(self.fields)

    def add(self, user: NDArray[np.uint64], shown_at_ms: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
        """Add an amount for each list."""
        if not len(user):
            return
        self.newest_ms = max(self.newest_ms, int(shown_at_ms.max()))
        self._waiting.append(UserMinutes(user, shown_at_ms // MINUTE_MS, amounts))

    def settle(self) -> UserMinutes:
        """Return the rows of users in the sample, all that waited added up."""
        if self._waiting or self._sampled != self.sample.halvings:
            parts = [self.rows, *self._waiting]
            user = np.concatenate([part.user for part in parts])
            kept = self.sample.has(user)
            minute = np.concatenate([part.minute for part in parts])[kept]
            amounts = np.concatenate([part.amounts for part in parts])[kept]
            self.rows = UserMinutes(user[kept], minute, amounts).added_up()
            self._waiting, self._sampled = [], self.sample.halvings
        return self.rows


class ListSums:
    """What sample batches say of each arm: lists, clicks and clicked lists of each user and minute.

    Parameters
    ----------
    most_rows
        Of users and minutes, 40 bytes each; beyond that, every second user is left out, as often as it takes.
    """

    def __init__(self, *, most_rows: int = 10_000_000) -> None:
        self.arms: dict[Arm, ArmSums] = {}
        self.sample, self.most_rows = UserSample(), most_rows
        self._unsettled = 0

    def add(self, batch: SampleBatch) -> None:
        """Count the lists of a batch."""
        sizes, signs = batch.sizes_array.astype(np.int64), batch.signs_array.astype(np.int64)
        arm = self.arms.setdefault(Arm(batch.bucket, batch.split_version), ArmSums(3, self.sample))
        clicked = batch.rewards_array > 0
        ends = np.concatenate(([0], np.cumsum(clicked)))
        stops = np.cumsum(sizes)
        clicks = ends[stops] - ends[stops - sizes]
        users = users_of(batch)
        arm.userless += int((users == 0).sum())
        users = np.where(users == 0, list_as_user(batch), users)
        arm.add(users, batch.shown_at_ms_array, np.stack((signs, signs * clicks, signs * (clicks > 0)), axis=1))
        sign = np.repeat(signs, sizes)
        position = batch.positions_array
        for number, weight in ((ROWS, sign), (HITS, sign * clicked)):
            arm.positions[number] += np.bincount(position, weight, MAX_POSITIONS + 1).astype(np.int64)
        self._unsettled += len(sizes)
        if self._unsettled >= COMPACT_AT:
            self.settle()

    def settle(self) -> None:
        """Add up what waits, and thin the users if they have become too many."""
        self._unsettled = 0
        while sum(len(arm.settle().user) for arm in self.arms.values()) > self.most_rows:
            self.sample.halvings += 1


def users_of(batch: SampleBatch) -> NDArray[np.uint64]:
    """Return the hash of each list's user, 0 where none is told."""
    found = batch.user_hashes_array
    return found if len(found) else np.zeros(len(batch.sizes), np.uint64)


def list_as_user(batch: SampleBatch) -> NDArray[np.uint64]:
    """Return a number for each list by where its impression stands, the same for its correction."""
    place = batch.source_offsets_array.astype(np.uint64) * np.uint64(1 << 12)
    return place + batch.source_partitions_array.astype(np.uint64) + np.uint64(1)
