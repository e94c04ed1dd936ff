"""Net sums of each user in each minute, bucket by bucket, out of sample batches in any order."""

from __future__ import annotations

from typing import NamedTuple

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


class Arm(NamedTuple):
    """What is compared: a bucket under one version of the split of users."""

    bucket: str
    split: str


class UserMinutes(NamedTuple):
    """Rows of one arm by user and minute."""

    user: NDArray[np.uint64]
    minute: NDArray[np.int64]
    amounts: NDArray[np.int64]  # (rows, fields)

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


class ArmSums:
    """All that was counted of one arm; a list with sign −1 takes back what it had added, and where."""

    def __init__(self, fields: int, sample: UserSample | None = None) -> None:
        self.sample = sample or UserSample()
        self.rows = UserMinutes(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty((0, fields), np.int64))
        self.positions = np.zeros((2, MAX_POSITIONS + 1), np.int64)
        self.newest_ms = 0
        self.userless = 0  # lists without a user
        self._waiting: list[UserMinutes] = []
        self._sampled = 0  # the sample's halvings when the rows were thinned last

    def add(self, user: NDArray[np.uint64], shown_at_ms: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
        """Add an amount for each list."""
        if len(user):
            self.newest_ms = max(self.newest_ms, int(shown_at_ms.max()))
            self._waiting.append(UserMinutes(user, shown_at_ms // MINUTE_MS, amounts))

    def settle(self) -> UserMinutes:
        """Return the rows of users in the sample, all that waited added up."""
        if self._waiting or self._sampled != self.sample.halvings:
            columns = [np.concatenate(parts) for parts in zip(self.rows, *self._waiting, strict=True)]
            kept = self.sample.has(columns[0])
            self.rows = UserMinutes(*(column[kept] for column in columns)).added_up()
            self._waiting, self._sampled = [], self.sample.halvings
        return self.rows


class ListSums:
    """What sample batches say of each arm: lists, clicks and clicked lists of each user and minute.

    Beyond ``most_rows`` of users and minutes, 40 bytes each, every second user is left out, as often as it takes.
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
        users, told = users_of(batch)
        arm.userless += int((~told).sum())
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


def users_of(batch: SampleBatch) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the hash of each list's user, and whether the list has one.

    A list without a user counts as one of its own, by where its impression stands: the same for its correction.
    """
    high_bits = batch.source_offsets_array.astype(np.uint64) * np.uint64(1 << 12)
    alone = high_bits + batch.source_partitions_array.astype(np.uint64) + np.uint64(1)
    users = batch.user_hashes_array if len(batch.user_hashes_array) else np.zeros_like(alone)
    return np.where(users == 0, alone, users), users != 0
