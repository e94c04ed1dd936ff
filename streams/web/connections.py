"""Connections of an HTTP server, on aiohttp: how many, how long, and how much may be said on each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from streams.web.access import HEADERS

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

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """All connections of one server; of too many, the one whose client has done nothing the longest is cut.

    So clients that hold theirs open keep nobody out: a new one asks at once, and is answered before it is the oldest.
    """

    def __init__(self, answer: Answer, *, body_bytes: int, most: int = MOST_CONNECTIONS) -> None:
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

    __slots__ = ("_all", "_heard", "_heard_at", "_refused", "_timer", "_wire", "is_stream")

    def __init__(self, server: Connections, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop=loop, **LIMITS)
        self._all, self._heard, self.is_stream = server, 0, False
        self._heard_at: float | None = None  # when what is not answered yet began
        self._refused = False
        self._wire: asyncio.BaseTransport | None = None
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
        if self._heard_at is None:
            self._heard_at = asyncio.get_running_loop().time()
        self._heard += len(data)
        if self._heard > (REFUSED_BYTES if self._refused else HEAD_BYTES + self._all.body_bytes):
            self.cut()
        elif not self._refused:
            super().data_received(data)

    def refuse_body(self) -> None:
        """Hear the rest of what is said without keeping it, for an answer that ends the connection."""
        self._refused = True

    @property
    def waited_s(self) -> float:
        """How long ago the request began to be heard that is being answered."""
        return 0.0 if self._heard_at is None else asyncio.get_running_loop().time() - self._heard_at

    def end(self) -> None:
        """Note that a request was answered."""
        self._heard_at = None

    def begin(self) -> None:
        """Note that a request was heard."""
        self._heard = 0
        self.step()

    def step(self) -> None:
        """Give the client time for one more step."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(STEP_S, self.cut)
        self._all.oldest_first.pop(self, None)
        if not self.is_stream:  # streams have a limit of their own
            self._all.oldest_first[self] = None

    def cut(self) -> None:
        """Hang up at once, also on who does not take what was sent."""
        self._all.oldest_first.pop(self, None)
        if isinstance(self._wire, asyncio.WriteTransport):
            self._wire.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request, and what a page failed at, in plain text."""
        log.log(logging.ERROR if status == 500 else logging.DEBUG, "no answer to %s", request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("half of another answer was sent") from exc
        response = web.Response(status=status, text=f"{message or f'{type(exc).__name__}: {exc}'}\n")
        response.force_close()
        return response


class PageRequest(web.BaseRequest):
    """A request whose answer is dressed."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await dress(self, response)


async def dress(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Let an answer name no software, and forbid the browser what no page of ours needs."""
    del response.headers["Server"]
    response.headers.update(HEADERS)
