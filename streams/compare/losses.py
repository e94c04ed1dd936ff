"""Clicks that the join could not use, given to the bucket and the user of their list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import Click, DeadLetter, SampleBatch
from streams.compare.columns import COMPACT_AT, MINUTE_MS, Arm, ArmSums, UserSample, users_of
from streams.events import EventReader
from streams.logs import LogRecord, letter_of

REMEMBERED_MINUTES = 1440  # of lists: a click that comes after a day is given to nobody
LOST = 0  # field of an amount


class _ListColumns(NamedTuple):
    """Columns of lists by the hash of their id, rising."""

    name: NDArray[np.int64]
    user: NDArray[np.uint64]
    minute: NDArray[np.int32]
    arm: NDArray[np.int16]

    def some(self, which: NDArray[np.generic]) -> _ListColumns:
        return _ListColumns(*(column[which] for column in self))


_NONE = _ListColumns(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int16))


class LostClicks:
    """Late and refused clicks by arm; a click may be read before or after its list."""

    def __init__(self, sample: UserSample | None = None, *, reader: EventReader) -> None:
        self._reader = reader
        self._sample = sample or UserSample()
        self.arms: dict[Arm, ArmSums] = {}
        self.clicks = 0  # late or refused, of any list
        self._numbers: list[Arm] = []
        self._known = _NONE
        self._heard: list[_ListColumns] = []
        self._unsettled = 0
        self._waiting: list[tuple[int, int]] = []  # hash of the list's id, and when it was clicked

    def add_lists(self, batch: SampleBatch) -> None:
        """Remember whose lists these are."""
        arm = Arm(batch.bucket, batch.split_version)
        if arm not in self._numbers:
            self._numbers.append(arm)
            self.arms[arm] = ArmSums(1, self._sample)
        users, _ = users_of(batch)
        self._heard.append(
            _ListColumns(
                np.fromiter(map(hash, batch.impression_ids), np.int64, len(batch.impression_ids)),
                users,
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
        click = self._reader.event_or_none(value, Click)
        if click is not None:
            self.clicks += 1
            self._waiting.append((hash(click.impression_id), click.clicked_at_ms // MINUTE_MS))

    def settle(self) -> None:
        """Give every click whose list is known to its arm; when all there is was read, the others wait for a day."""
        self._match()
        if self._waiting and len(self._known.name):
            oldest = int(self._newest().min()) - REMEMBERED_MINUTES
            self._waiting = [click for click in self._waiting if click[1] > oldest]

    def _match(self) -> None:
        known = self._known
        if self._heard:
            columns = [np.concatenate(parts) for parts in zip(known, *self._heard, strict=True)]
            known = self._known = _ListColumns(*columns).some(np.argsort(columns[0], kind="stable"))
        self._heard, self._unsettled = [], 0
        if not len(known.name):
            return
        if self._waiting:
            names = np.array([name for name, _ in self._waiting], np.int64)
            at = np.minimum(np.searchsorted(known.name, names), len(known.name) - 1)
            matches = known.name[at] == names
            for number, arm in enumerate(self._numbers):
                mine = at[matches & (known.arm[at] == number)]
                shown_ms = known.minute[mine].astype(np.int64) * MINUTE_MS
                self.arms[arm].add(known.user[mine], shown_ms, np.ones((len(mine), 1), np.int64))
            self._waiting = [click for click, there in zip(self._waiting, matches.tolist(), strict=True) if not there]
        # by arm: buckets lie on different partitions, of which one may be read to its end before another begins
        recent = known.minute > self._newest()[known.arm] - REMEMBERED_MINUTES
        self._known = known.some(recent & self._sample.has(known.user))

    def _newest(self) -> NDArray[np.int32]:
        newest = np.zeros(len(self._numbers), np.int32)
        np.maximum.at(newest, self._known.arm, self._known.minute)
        return newest
