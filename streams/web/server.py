"""A web server on a thread of its own."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self


class WebError(RuntimeError):
    """A page that cannot be served where it was wanted."""


class Server(ThreadingHTTPServer):
    """A server whose slow clients and open streams never hold back the process's end."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong in a handler, but not that a client hung up: that is its own business."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class WebThread:
    """Serves from ``start`` to ``stop``, or for as long as a ``with`` lasts; port 0 takes any free one."""

    def __init__(self, name: str, handler: type[BaseHTTPRequestHandler], *, host: str, port: int) -> None:
        try:
            self._server = Server((host, port), handler)
        except OSError as error:
            raise WebError(
                f"cannot serve {name} on {host}:{port}: {error.strerror}; choose another port, or 0 for any free one"
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name=name, daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
