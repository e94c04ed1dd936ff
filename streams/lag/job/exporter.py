"""Lag on /metrics, until SIGTERM."""

from __future__ import annotations

import logging
import signal
from collections.abc import Collection
from threading import Event

from streams.broker import log_of_job
from streams.lag.job.metrics import metrics_of
from streams.lag.job.reader import LagError, LagReader
from streams.lag.report import LagReport
from streams.lag.verdict import Window
from streams.settings import Settings
from streams.web import Health

log = logging.getLogger(__name__)


class LagExporter:
    """Looks at lag every so often, and answers Prometheus with the newest report."""

    def __init__(
        self,
        settings: Settings,
        *,
        port: int = 0,
        groups: Collection[str] = (),
        window: Window | None = None,
        every_s: float = 2.0,
    ) -> None:
        self.every_s = every_s
        self.report: LagReport | None = None
        self.trouble: str | None = "lag was not read yet"
        self._reader = LagReader(settings, groups=groups, window=window)
        self.health = Health(
            live=lambda: None,
            ready=lambda: self.trouble,
            metrics=lambda: metrics_of(self.report),
            host=settings.web_host,
            port=port,
        )

    def look(self) -> None:
        """Read lag once; what goes wrong is kept for the page."""
        try:
            self.report, self.trouble = self._reader.read(), None
        except LagError as error:
            if str(error) != self.trouble:
                log.warning("%s; trying again", error)
            self.report, self.trouble = None, str(error)
        except Exception as error:  # a surprise is said, and must not end the watching
            log.exception("lag cannot be read")
            self.report, self.trouble = None, f"{type(error).__name__}: {error}"

    def run(self, stop: Event) -> None:
        """Look until told to stop."""
        with self.health, self._reader:
            while not stop.is_set():
                self.look()
                stop.wait(self.every_s)


def serve_lag(
    settings: Settings, *, port: int, groups: Collection[str] = (), window: Window | None = None, every_s: float = 2.0
) -> int:
    """Serve lag until SIGTERM or Ctrl-C; return the exit code."""
    log_of_job()
    exporter, stop = LagExporter(settings, port=port, groups=groups, window=window, every_s=every_s), Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info("lag on %s/metrics", exporter.health.url)
    exporter.run(stop)
    return 0
