"""The load of one fault: simulated events on Kafka at the pace of the clock, through whatever happens to the broker."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence

from schemas.records import Impression
from streams.events import Event
from streams.events.job import DeliveryError, EventWriter, simulated_events
from streams.settings import Settings

PIECE_MS = 200
AGAIN_EVERY = 20  # each so-manieth event is sent twice, as services do
RETRY_S = 0.3


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
