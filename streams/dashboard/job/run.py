"""The running dashboard: a thread that reads the log, one that asks for lag, and the server."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from streams.dashboard.archive_source import ArchiveFollower
from streams.dashboard.job.feed import State
from streams.dashboard.job.kafka_source import KafkaFollower
from streams.dashboard.job.server import DashboardServer
from streams.lag.job import LagReader
from streams.logs import Archive, SourceAway
from streams.settings import Settings

log = logging.getLogger(__name__)

SHARE, LAG_SHARE = 0.025, 0.015  # of a core: for reading and updating, and for asking for lag
AGAIN_S, SLOWEST_S = 1.0, 10.0
SMOOTH = 0.2  # how much one poll counts: a single dear one must not freeze the page
LAG_S, SLOWEST_LAG_S = 5.0, 60.0

Lag = Callable[[], dict[str, Any]]  # a report as plain JSON; raises what it cannot help, in one line


class Dashboard:
    """Reads ``source`` and ``lag`` in the background and serves the page; both may be away and come back.

    ``lag`` is None where there are no consumers, as in an archive; ``options`` are those of ``DashboardServer``.
    """

    def __init__(
        self, settings: Settings, source: KafkaFollower | ArchiveFollower, *, lag: Lag | None = None, **options: Any
    ) -> None:
        self.state = State(settings, source_name=source.name, consumers=lag is not None)
        self.server = DashboardServer(self.state, **options)
        self.url = self.server.url
        self._source, self._lag = source, lag
        self._stop = Event()
        self._lag_used_s = 0.0
        self._threads = [Thread(target=self._read, name="dashboard-log", daemon=True)]
        if lag is not None:
            self._threads.append(Thread(target=self._ask, name="dashboard-lag", daemon=True))

    def __enter__(self) -> Dashboard:
        self.server.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.server.stop()
        for thread in self._threads:
            thread.join(timeout=15)

    def _read(self) -> None:
        used, usual, said = self._used_s(), 0.0, ""
        while not self._stop.is_set():
            pause, began = AGAIN_S, time.monotonic()
            try:
                update = self._source.poll()
                self.state.add(update)
                if update.behind:  # history is read at once, and not charged to the updates after it
                    pause = 0.0
                else:
                    usual += SMOOTH * (self._used_s() - used - usual)
                    pause = min(max(usual / SHARE - (time.monotonic() - began), AGAIN_S), SLOWEST_S)
            except SourceAway as error:
                self.state.fail(str(error))
            except Exception as error:  # a surprise must not end the reading: the page shows it, the log has the trace
                words = f"{type(error).__name__}: {error}"
                log.log(logging.DEBUG if words == said else logging.ERROR, "the page cannot be fed", exc_info=True)
                self.state.fail(words)
                said = words
            used = self._used_s()
            self._stop.wait(pause)  # longer after much work, so that everything keeps to its share of a core
        self._source.close()

    def _used_s(self) -> float:
        """Return the processor's time of everything but lag: reading, and the pages' updates."""
        return time.process_time() - self._lag_used_s

    def _ask(self) -> None:
        assert self._lag is not None
        while not self._stop.is_set():
            began = time.process_time()
            try:
                self.state.set_lag(self._lag())
            except Exception as error:  # as above; most are a broker that is away, which the report says in one line
                log.debug("no lag", exc_info=True)
                self.state.set_lag(None, str(error) or type(error).__name__)
            used = time.process_time() - began
            self._lag_used_s += used
            self._stop.wait(min(max(used / LAG_SHARE, LAG_S), SLOWEST_LAG_S))


def of_kafka(settings: Settings, **options: Any) -> Dashboard:
    """Return the dashboard of a live pipeline; ``options`` are those of ``DashboardServer``."""
    reader = LagReader(settings)
    return Dashboard(settings, KafkaFollower(settings), lag=lambda: reader.read().to_dict(), **options)


def of_archive(settings: Settings, path: Path, **options: Any) -> Dashboard:
    """Return the dashboard of archived topics; a directory that is none is refused."""
    Archive.open(path)
    return Dashboard(settings, ArchiveFollower(path), **options)


def serve(dashboard: Dashboard, *, say: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    done = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    with dashboard:
        elsewhere = f" (from elsewhere {dashboard.server.outside})" if dashboard.server.outside else ""
        say(f"open {dashboard.url}{elsewhere}")
        while not done.wait(1.0):
            pass
    return 0
