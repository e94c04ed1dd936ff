"""Live traffic at a pace that can be changed, and what processes hold meanwhile."""

import os
import threading
import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from subprocess import Popen

from schemas.records import Impression
from streams.broker import producer
from streams.events.job import EventWriter, simulated_events
from streams.settings import Settings, Topics

PIECE_S = 0.1
JUNK_EVERY = 50  # each so-manieth list brings a record that is no event


class SteadyLoad(threading.Thread):
    """Writes lists with their clicks, now, ``rate`` lists a second, and some junk, until it is ended."""

    def __init__(self, settings: Settings, *, rate: float) -> None:
        super().__init__(daemon=True)
        self.rate, self.lists, self.junk = rate, 0, 0
        self._settings, self._over = settings, threading.Event()
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        events = simulated_events(self._settings, 1 << 40)
        try:
            with EventWriter(self._settings) as writer, closing(producer(self._settings)) as raw:
                at, due = time.monotonic(), 0.0
                while not self._over.wait(max(0.0, at - time.monotonic())):
                    at, due = at + PIECE_S, due + self.rate * PIECE_S
                    while self.lists < due:
                        for event in islice(events, 1):
                            writer.send(event)
                            self.lists += isinstance(event, Impression)
                    while self.junk < self.lists // JUNK_EVERY:
                        raw.send(Topics.of(self._settings).events[self.junk % 2], b"no event", key=b"%d" % self.junk)
                        self.junk += 1
                writer.flush()
                raw.flush(10)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        """Write no more; raise what went wrong."""
        self._over.set()
        self.join(30)
        if self._error is not None:
            raise self._error


def resident_mb(process: Popen[bytes]) -> float:
    """Return the memory that a process holds."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def descriptors(process: Popen[bytes]) -> int:
    """Return how many files and sockets a process has open."""
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
