"""The golden run, in this process and on files, and how far a live one is from it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from streams.drill.job.load import PIECE_MS
from streams.embedded.job import Embedded
from streams.events import Event
from streams.logs import SourceAway
from streams.parameters import SnapshotCorrupt
from streams.parameters.job import KafkaParameters, RedisParameters
from streams.settings import Settings

LOOK_S = 2.0


class Golden:
    """What every bucket must be, bit by bit, once all events so far are learned."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._loop, self._wait_ms = Embedded(folder, settings), int(settings.wait_s * 1000)
        self._buckets = settings.buckets

    @property
    def now_ms(self) -> int:
        """The time up to which it has come; later events must be dated after it."""
        return self._loop.logs.now_ms

    @property
    def lists(self) -> int:
        """How many lists are learned."""
        return sum(found[1] for found in self.states().values())

    def learn(self, events: Sequence[Event]) -> None:
        """Join and learn events, in the order of their times, until every list is closed."""
        for _, piece in itertools.groupby(events, key=lambda event: event.at_ms // PIECE_MS):
            together = list(piece)
            self._loop.append(together, at_ms=together[-1].at_ms)
        self._loop.step(events[-1].at_ms + self._wait_ms + 1)

    def states(self) -> dict[str, tuple[str, int]]:
        """Return the hash and the lists of every bucket that learned something."""
        found = {name: self._loop.snapshots.newest(name) for name in self._buckets}
        return {name: (one.sha256, one.rounds) for name, one in found.items() if one is not None and one.rounds}

    def close(self) -> None:
        """Let go of the files."""
        self._loop.close()


class Live:
    """The snapshots that rankers would read now: on Kafka, and in Redis where there is one."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._buckets = settings, list(settings.buckets)
        self._kafka = KafkaParameters(settings)
        self._redis = RedisParameters(settings) if settings.redis else None

    def lists(self) -> int | None:
        """Return how many lists are learned as every place tells it; None when one of them does not answer."""
        try:
            counts = [sum(rounds for _, rounds in states.values()) for states in self._states().values()]
        except (SourceAway, SnapshotCorrupt):
            return None
        return min(counts)

    def differences(self, golden: Golden) -> tuple[str, ...]:
        """Return in words where a place differs from the golden run."""
        try:
            places, wanted = self._states(), golden.states()
        except (SourceAway, SnapshotCorrupt) as error:
            return (str(error),)
        words = []
        for place, states in places.items():
            for bucket, (sha256, rounds) in wanted.items():
                found = states.get(bucket, ("", 0))
                if found[1] != rounds:
                    words.append(f"{bucket} has {found[1]} of {rounds} lists {place}")
                elif found[0] != sha256:
                    words.append(f"{bucket} has all lists and other bits {place}")
        return tuple(words)

    def _states(self) -> dict[str, dict[str, tuple[str, int]]]:
        self._kafka.catch_up(timeout_s=LOOK_S)
        newest = {"on Kafka": dict(self._kafka.snapshots)}
        if self._redis is not None:
            found = {name: self._redis.newest(name) for name in self._buckets}
            newest["in Redis"] = {name: one for name, one in found.items() if one is not None}
        return {
            place: {name: (one.sha256, one.rounds) for name, one in snapshots.items()}
            for place, snapshots in newest.items()
        }

    def close(self) -> None:
        """Let go of the connections."""
        self._kafka.close()
        if self._redis is not None:
            self._redis.close()
