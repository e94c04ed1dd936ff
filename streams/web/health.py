"""Health pages on a thread of their own: /livez, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from streams.web.metrics import CONTENT_TYPE
from streams.web.server import WebThread

PLAIN = "text/plain; charset=utf-8"
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
            error_content_type = PLAIN
            error_message_format = "%(code)d %(message)s\n"

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                page = pages.get(path)
                if page is None:
                    status, text = 404, f"not here; try {' '.join(pages)}\n"
                else:
                    try:
                        status, text = page()
                    except Exception as error:  # the page must tell of whatever went wrong, not hang up
                        status, text = 500, f"{type(error).__name__}: {error}\n"
                self.answer(status, text, CONTENT_TYPE if path == "/metrics" and status == 200 else PLAIN)

            do_HEAD = do_GET

            def refuse(self) -> None:
                self.answer(405, "these pages are only read: GET or HEAD\n", PLAIN, Allow="GET, HEAD")

            do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse

            def answer(self, status: int, text: str, content_type: str, **headers: str) -> None:
                body = text.encode()
                self.send_response(status)
                for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
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
