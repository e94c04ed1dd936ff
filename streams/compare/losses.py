"""Clicks that the join could not use, given to the bucket and the user of their list."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from schemas.codec import SchemaError, decode
from schemas.records import Click, DeadLetter, SampleBatch
from streams.compare.columns import COMPACT_AT, MINUTE_MS, Arm, ArmSums, UserSample, list_as_user, users_of
from streams.logs import LogRecord, letter_of

REMEMBERED_MINUTES = 1440  # of lists: a click that comes after a day is given to nobody
LOST = 0  # field of an amount


class LostClicks:
    """Late and refused clicks by arm; a click may be read before or after its list."""

    def __init__(self, sample: UserSample | None = None) -> None:
        self._sample = sample or UserSample()
        self.arms: dict[Arm, ArmSums] = {}
        self.clicks = 0  # late or refused, of any list
        self._numbers: list[Arm] = []
        self._known = _Places.none()
        self._heard: list[_Places] = []
        self._unsettled = 0
        self._waiting: list[tuple[int, int]] = []  # hash of the list's id, and when it was clicked

    def add_lists(self, batch: SampleBatch) -> None:
        """Remember whose lists these are."""
        arm = Arm(batch.bucket, batch.split_version)
        if arm not in self._numbers:
            self._numbers.append(arm)
            self.arms[arm] = ArmSums(1, self._sample)
        users = users_of(batch)
        self._heard.append(
            _Places(
                np.fromiter(map(hash, batch.impression_ids), np.int64, len(batch.impression_ids)),
                np.where(users == 0, list_as_user(batch), users),
                (batch.shown_at_ms_array // MINUTE_MS).astype(np.int32),
                np.full(len(users), self._numbers.index(arm), np.int16),
            )
        )
        self._unsettled += len(users)
        if self._unsettled >= COMPACT_AT:
            self._match()

    def add_late(self, records: Iterable[LogRecord]) -> None:
        """Take records of ``late-clicks``."""
        for record in records:
            self._lose(record.value)

    def add_letters(self, records: Iterable[LogRecord], partition: int) -> None:
        """Take records of ``dead-letters``, of which clicks count."""
        for record in records:
            letter: DeadLetter = letter_of(record, partition)
            if letter.topic.endswith("clicks"):
                self._lose(letter.value)

    def _lose(self, value: bytes | None) -> None:
        try:
            click: Click = decode(value or b"", Click)
        except SchemaError:
            return
        self.clicks += 1
        self._waiting.append((hash(click.impression_id), click.clicked_at_ms // MINUTE_MS))

    def settle(self) -> None:
        """Give every click whose list is known to its arm; when all there is was read, the others wait for a day."""
        self._match()
        if self._waiting and len(self._known.name):
            oldest = int(self._newest().min()) - REMEMBERED_MINUTES
            self._waiting = [one for one in self._waiting if one[1] > oldest]

    def _match(self) -> None:
        known = self._known = _Places.joined([self._known, *self._heard])
        self._heard, self._unsettled = [], 0
        if not len(known.name):
            return
        if self._waiting:
            names = np.array([name for name, _ in self._waiting], np.int64)
            at = np.minimum(np.searchsorted(known.name, names), len(known.name) - 1)
            found = known.name[at] == names
            for number, arm in enumerate(self._numbers):
                mine = at[found & (known.arm[at] == number)]
                shown_ms = known.minute[mine].astype(np.int64) * MINUTE_MS
                self.arms[arm].add(known.user[mine], shown_ms, np.ones((len(mine), 1), np.int64))
            self._waiting = [one for one, there in zip(self._waiting, found.tolist(), strict=True) if not there]
        # by arm: buckets lie on different partitions, of which one may be read to its end before another begins
        recent = known.minute > self._newest()[known.arm] - REMEMBERED_MINUTES
        self._known = known.some(recent & self._sample.has(known.user))

    def _newest(self) -> NDArray[np.int32]:
        newest = np.zeros(len(self._numbers), np.int32)
        np.maximum.at(newest, self._known.arm, self._known.minute)
        return newest


class _Places:
    """Columns of lists by the hash of their id, rising."""

    def __init__(
        self,
        name: NDArray[np.int64],
        user: NDArray[np.uint64],
        minute: NDArray[np.int32],
        arm: NDArray[np.int16],
    ) -> None:
        self.name, self.user, self.minute, self.arm = name, user, minute, arm

    @classmethod
    def none(cls) -> _Places:
        return cls(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int16))

    @classmethod
    def joined(cls, parts: list[_Places]) -> _Places:
        if len(parts) == 1:
            return parts[0]
        whole = cls(
            np.concatenate([part.name for part in parts]),
            np.concatenate([part.user for part in parts]),
            np.concatenate([part.minute for part in parts]),
            np.concatenate([part.arm for part in parts]),
        )
        return whole.some(np.argsort(whole.name, kind="stable"))

    def some(self, which: NDArray[np.generic]) -> _Places:
        return _Places(self.name[which], self.user[which], self.minute[which], self.arm[which])
