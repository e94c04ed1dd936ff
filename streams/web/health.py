"""/livez, /readyz and /metrics of a job."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from streams.web.metrics import CONTENT_TYPE
from streams.web.server import WebServer

Check = Callable[[], str | None]  # None when all is well, else what is wrong


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
