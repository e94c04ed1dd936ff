"""Connections of an HTTP server, on aiohttp: how many, how long, and how much may be said on each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 128
STEP_S = 10.0  # to say a request and take its answer, and for each message of a stream
IDLE_S = 5.0  # before the first request and between two of them
HEAD_BYTES = 32 << 10
REFUSED_BYTES = 64 << 20  # of a body that is too large are heard and thrown away, so that its sender hears why
LIMITS: dict[str, Any] = {
    "access_log": None,  # addresses may hold the token
    "auto_decompress": False,  # a few bytes must not become many
    "keepalive_timeout": IDLE_S,
    "lingering_time": 1.0,  # for the rest of a body that nobody wants
    "max_field_size": 8190,
    "max_headers": 64,
    "max_line_size": 8190,
}
# Nothing from anywhere else, nothing inline: text of a record that finds its way into the page cannot act there.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """All connections of one server; of too many, the one whose client has done nothing the longest is cut.

    So clients that hold theirs open keep nobody out: a new one asks at once, and is answered before it is the oldest.
    """

    def __init__(self, answer: Answer, *, body_bytes: int, most: int) -> None:
        super().__init__(answer, request_factory=self._request, handler_cancellation=True)
        self.body_bytes, self.most = body_bytes, most
        self.oldest_first: dict[Connection, None] = {}

    def __call__(self) -> Connection:
        """Return the connection of a new client."""
        return Connection(self, asyncio.get_running_loop())

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return PageRequest(message, payload, protocol, writer, task, loop, client_max_size=self.body_bytes)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection in, and cut one if that is one too many."""
        super().connection_made(handler, transport)
        if len(self.connections) > self.most and self.oldest_first:
            next(iter(self.oldest_first)).cut()


class Connection(web.RequestHandler):
    """The connection of one client, cut when a step takes too long, or when more is said than a request may hold."""

    __slots__ = ("_all", "_heard", "_timer", "_until", "_wire", "heard_at", "is_stream", "refused")

    def __init__(self, server: Connections, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop=loop, **LIMITS)
        self._all, self._heard, self.is_stream = server, 0, False
        self.refused = False  # the rest of a body is heard and not kept, for an answer that ends the connection
        self.heard_at: float | None = None  # when what is not answered yet began
        self._wire: asyncio.BaseTransport | None = None
        self._until = 0.0  # when its step takes too long
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to listen."""
        self._wire = transport
        self.step()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the client."""
        if self._timer is not None:
            self._timer.cancel()
        self._all.oldest_first.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hear the client, up to what one request may hold; that bounds what waits behind a request, too."""
        if self.heard_at is None:
            self.heard_at = asyncio.get_running_loop().time()
        self._heard += len(data)
        if self._heard > (REFUSED_BYTES if self.refused else HEAD_BYTES + self._all.body_bytes):
            self.cut()
        elif not self.refused:
            super().data_received(data)

    def begin(self) -> None:
        """Note that a request was heard."""
        self._heard = 0
        self.step()

    def step(self) -> None:
        """Give the client time for one more step."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + STEP_S
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._watch)
        self._all.oldest_first.pop(self, None)
        if not self.is_stream:  # streams have a limit of their own
            self._all.oldest_first[self] = None

    def _watch(self) -> None:
        """Hang up if the step took too long, else look again when it will have: a timer for each step is slow."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._watch)
        else:
            self.cut()

    def cut(self) -> None:
        """Hang up at once, also on who does not take what was sent."""
        self._all.oldest_first.pop(self, None)
        if isinstance(self._wire, asyncio.WriteTransport):
            self._wire.abort()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no request, and what a page failed at, in plain text."""
        log.log(logging.ERROR if status == 500 else logging.DEBUG, "no answer to %s", request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("half of another answer was sent") from exc
        response = web.Response(status=status, text=f"{message or f'{type(exc).__name__}: {exc}'}\n")
        response.force_close()
        return response


class PageRequest(web.BaseRequest):
    """A request whose answer names no software, and forbids the browser what no page of ours needs."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        # aiohttp 3.14.5 adds a Server header, and has no public hook for the headers of a server without an app.
        del response.headers["Server"]
        response.headers.update(HEADERS)
