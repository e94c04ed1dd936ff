"""/livez, /readyz and /metrics of a job, and the check behind /livez: offsets that stand still while there is lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from aiohttp import web

from streams.web.metrics import CONTENT_TYPE
from streams.web.server import WebServer

Check = Callable[[], str | None]  # None when all is well, else what is wrong
STUCK_S = 60.0


class Health(WebServer):
    """What an orchestrator and Prometheus ask for: 200 while a check says nothing, 503 and its words when it does.

    >>> with Health(live=lambda: None, ready=lambda: "restoring", metrics=lambda: "") as health:
    ...     health.url.rpartition(":")[0]
    'http://127.0.0.1'
    """

    def __init__(
        self, *, live: Check, ready: Check, metrics: Callable[[], str], host: str = "127.0.0.1", port: int = 0
    ) -> None:
        super().__init__("health", host=host, port=port)
        self._checks, self._metrics = {"/livez": live, "/readyz": ready}, metrics

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return what a check says, or the figures."""
        if request.path == "/metrics":
            return web.Response(body=self._metrics().encode(), headers={"Content-Type": CONTENT_TYPE})
        if request.path in self._checks:
            status, text = verdict(self._checks[request.path]())
            return web.Response(status=status, text=text)
        raise web.HTTPNotFound(text="not here; try /livez /readyz /metrics\n")


def verdict(problem: str | None) -> tuple[int, str]:
    """Return the status and text of a check.

    >>> verdict(None), verdict("no partition assigned")
    ((200, 'ok\\n'), (503, 'no partition assigned\\n'))
    """
    return (200, "ok\n") if problem is None else (503, f"{problem}\n")


class StuckCheck:
    """Tells which partitions have lag and have not moved for a minute.

    >>> now = [0.0]
    >>> check = StuckCheck(clock=lambda: now[0])
    >>> for now[0] in (0.0, 61.0):
    ...     check.note({3: 17}, lagging=lambda partition: True)
    >>> check.stuck()
    'partitions [3] have lag and have not moved for 60 s'
    """

    def __init__(self, *, after_s: float = STUCK_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._after_s = clock, after_s
        self._stood: dict[int, tuple[int | None, float]] = {}  # its offset, and since when it is there with lag

    def note(self, offsets: Mapping[int, int | None], *, lagging: Callable[[int], bool]) -> None:
        """Note where each partition is; those that are not named any more are forgotten."""
        now, before = self._clock(), self._stood
        self._stood = {
            partition: before[partition]
            if partition in before and before[partition][0] == offset and lagging(partition)
            else (offset, now)
            for partition, offset in offsets.items()
        }

    def stuck(self) -> str | None:
        """Return which partitions stand still, in words, or None."""
        now = self._clock()
        found = [partition for partition, (_, since) in self._stood.items() if now - since > self._after_s]
        return f"partitions {found} have lag and have not moved for {self._after_s:g} s" if found else None
