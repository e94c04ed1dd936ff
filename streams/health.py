"""Checks in, /livez /readyz /metrics out, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from streams.metrics import CONTENT_TYPE
from streams.web import WebThread

Check = Callable[[], str | None]  # None when all is well, else what is wrong


class Health(WebThread):
    """A tiny web server: 200 while a check says nothing, 503 and its words when it does.

    >>> with Health(live=lambda: None, ready=lambda: "restoring", metrics=lambda: "") as health:
    ...     health.url.rpartition(":")[0]
    'http://127.0.0.1'
    """

    def __init__(
        self, *, live: Check, ready: Check, metrics: Callable[[], str], host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._pages: dict[str, Callable[[], tuple[int, str]]] = {
            "/livez": lambda: verdict(live()),
            "/readyz": lambda: verdict(ready()),
            "/metrics": lambda: (200, metrics()),
        }
        super().__init__("health", self._handler(), host=host, port=port)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pages = self._pages

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0  # a client that says nothing does not hold its thread

            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                if page is None:
                    status, text = 404, f"not here; try {' '.join(pages)}\n"
                else:
                    try:
                        status, text = page()
                    except Exception as error:  # the page must tell of whatever went wrong, not hang up
                        status, text = 500, f"{type(error).__name__}: {error}\n"
                body = text.encode()
                self.send_response(status)
                self.send_header(
                    "Content-Type", CONTENT_TYPE if self.path == "/metrics" else "text/plain; charset=utf-8"
                )
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Keep a probe per second out of the log."""

        return Handler


def verdict(problem: str | None) -> tuple[int, str]:
    """Return the status and text of a check.

    >>> verdict(None), verdict("no partition assigned")
    ((200, 'ok\\n'), (503, 'no partition assigned\\n'))
    """
    return (200, "ok\n") if problem is None else (503, f"{problem}\n")
