"""The load of a fault, the golden run of the same events on files, and how far the live state is from it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from schemas.records import Impression, Snapshot
from streams.embedded.job import Embedded
from streams.events import Event
from streams.events.job import DeliveryError, EventWriter, simulated_events
from streams.logs import SourceAway
from streams.parameters import SnapshotCorrupt
from streams.parameters.job import KafkaParameters, online_store
from streams.settings import Settings

PIECE_MS = 200
AGAIN_EVERY = 20  # each so-manieth event is sent twice, as services do
RETRY_S = 0.3
LOOK_S = 2.0
States = dict[str, tuple[str, int]]  # by bucket: the hash of its state, and its lists


def draw_load(settings: Settings, *, start_ms: int, load_s: float, rate: float, seed: int) -> list[Event]:
    """Return the events of ``load_s`` seconds from ``start_ms`` on, in the order of their times."""
    lists = max(1, int(rate * load_s))
    ticks = itertools.count()  # the first one names the run, and each other one dates a list
    events = simulated_events(settings, lists, seed=seed, clock=lambda: start_ms / 1000 + next(ticks) / rate)
    return sorted(events, key=lambda event: event.at_ms)


class Load(threading.Thread):
    """Writes events when their time has come; what the broker did not take is sent again until it does.

    Records carry the events' own times, so that a fault changes when they arrive and not what they mean.
    """

    def __init__(self, settings: Settings, events: Sequence[Event]) -> None:
        super().__init__(name="drill-load", daemon=True)
        self.written = 0  # lists that Kafka has acknowledged
        self.error: BaseException | None = None
        self._settings, self._events, self._over = settings, events, threading.Event()

    def run(self) -> None:
        """Write everything, piece by piece."""
        try:
            with EventWriter(self._settings, timeout_s=5.0) as writer:
                for _, piece in itertools.groupby(self._events, key=lambda event: event.at_ms // PIECE_MS):
                    self._write(writer, list(piece))
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Give up what is not written yet."""
        self._over.set()
        self.join(30)

    def _write(self, writer: EventWriter, piece: list[Event]) -> None:
        self._over.wait(max(0.0, piece[-1].at_ms / 1000 - time.time()))
        while not self._over.is_set():
            try:
                for event in (*piece, *piece[::AGAIN_EVERY]):
                    writer.send(event, timestamp_ms=event.at_ms)
                writer.flush()
            except DeliveryError:
                self._over.wait(RETRY_S)
            else:
                self.written += sum(isinstance(event, Impression) for event in piece)
                return


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
        return sum(lists for _, lists in self.states().values())

    def learn(self, events: Sequence[Event]) -> None:
        """Join and learn events, in the order of their times, until every list is closed."""
        for _, piece in itertools.groupby(events, key=lambda event: event.at_ms // PIECE_MS):
            together = list(piece)
            self._loop.append(together, at_ms=together[-1].at_ms)
        self._loop.step(events[-1].at_ms + self._wait_ms + 1)

    def states(self) -> States:
        """Return the hash and the lists of every bucket that learned something."""
        states = states_of(map(self._loop.snapshots.newest, self._buckets))
        return {name: state for name, state in states.items() if state[1]}

    def close(self) -> None:
        """Let go of the files."""
        self._loop.close()


class Live:
    """The snapshots that rankers would read now: on Kafka, and in the online store if there is one."""

    def __init__(self, settings: Settings) -> None:
        self._buckets = list(settings.buckets)
        self._kafka, self._online = KafkaParameters(settings), online_store(settings)

    def lists(self) -> int | None:
        """Return how many lists are learned as every place tells it; None when one of them does not answer."""
        try:
            return min(sum(lists for _, lists in states.values()) for states in self._states().values())
        except (SourceAway, SnapshotCorrupt):
            return None

    def differences(self, golden: Golden) -> tuple[str, ...]:
        """Return in words where a place differs from the golden run."""
        try:
            stores, wanted = self._states(), golden.states()
        except (SourceAway, SnapshotCorrupt) as error:
            return (str(error),)
        words = []
        for store, states in stores.items():
            for bucket, (golden_sha256, golden_lists) in wanted.items():
                sha256, lists = states.get(bucket, ("", 0))
                if lists != golden_lists:
                    words.append(f"{bucket} has {lists} of {golden_lists} lists {store}")
                elif sha256 != golden_sha256:
                    words.append(f"{bucket} has all lists and other bits {store}")
        return tuple(words)

    def _states(self) -> dict[str, States]:
        self._kafka.catch_up(timeout_s=LOOK_S)
        states = {"on Kafka": states_of(self._kafka.snapshots.values())}
        if self._online is not None:
            states["in the online store"] = states_of(map(self._online.newest, self._buckets))
        return states

    def close(self) -> None:
        """Let go of the connections."""
        self._kafka.close()
        if self._online is not None:
            self._online.close()


def states_of(snapshots: Iterable[Snapshot | None]) -> States:
    """Return the states of the buckets that have a snapshot."""
    return {snapshot.bucket: (snapshot.sha256, snapshot.rounds) for snapshot in snapshots if snapshot is not None}
