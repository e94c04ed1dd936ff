"""One HTTP server for every page, on an event loop and a thread of its own, and who may see a page."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from socket import AF_INET, AF_INET6, create_server
from threading import Event, Thread
from typing import Self
from urllib.parse import urlsplit

from aiohttp import web

from streams.web.connections import MOST_CONNECTIONS, Connection, Connections

MOST_STREAMS = 32
MOST_WAITING = 4  # threads for pages that wait


class WebError(RuntimeError):
    """A page that cannot be served where it was wanted."""


class WebServer(ABC):
    """Serves from ``start`` to ``stop``, or for as long as a ``with`` lasts; port 0 takes any free one.

    Whatever its clients do, it has one thread, up to four more for pages that wait, and at most ``most_connections``;
    who takes longer than 10 s for a step is cut off.
    """

    methods: tuple[str, ...] = ("GET", "HEAD")
    body_bytes = 16 << 10  # the largest body of a request
    most_connections = MOST_CONNECTIONS

    def __init__(self, name: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            self._socket = create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
        except OSError as error:
            raise WebError(
                f"cannot serve {name} on {host}:{port}: {error.strerror}; choose another port, or 0 for any free one"
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self.streams = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._started, self._stopping = Event(), asyncio.Event()

    @abstractmethod
    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to a request; what waits for a lock or a disk does so by ``asyncio.to_thread``."""

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def waited_s(self, request: web.BaseRequest) -> float:
        """Return how long ago a request began to be heard, including the time that it waited for others."""
        heard_at = connection_of(request).heard_at
        return 0.0 if heard_at is None else asyncio.get_running_loop().time() - heard_at

    async def stream(self, request: web.BaseRequest, messages: AsyncIterator[str]) -> web.StreamResponse:
        """Send server-sent events as they come, until the client is gone or the server stops."""
        if self.streams >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_STREAMS} pages are open already\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        response.force_close()
        connection = connection_of(request)
        connection.is_stream = True
        self.streams += 1
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                async for message in messages:
                    connection.step()
                    await response.write(message.encode())
        except ConnectionError:
            pass  # a page was closed
        finally:
            self.streams -= 1
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        connection.begin()
        if request.method not in self.methods:
            raise web.HTTPMethodNotAllowed(request.method, self.methods, text=f"use {' or '.join(self.methods)}\n")
        if (request.content_length or 0) > self.body_bytes:
            connection.refused = True
            raise web.HTTPRequestEntityTooLarge(self.body_bytes, request.content_length or 0)
        try:
            return await self.page(request)
        finally:
            connection.heard_at = None

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._started.set()  # also when it cannot start: nobody waits for it then

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(MOST_WAITING))
        runner = await self.open()
        self._started.set()
        await self._stopping.wait()
        await runner.cleanup()

    async def open(self) -> web.ServerRunner:
        """Begin to answer on the event loop that runs, until the result is cleaned up; ``start`` has one of its own."""
        connections = Connections(self._answer, body_bytes=self.body_bytes, most=self.most_connections)
        runner = web.ServerRunner(connections, shutdown_timeout=0.1)
        await runner.setup()
        await web.SockSite(runner, self._socket).start()
        return runner

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Stop answering and free the port."""
        if self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def connection_of(request: web.BaseRequest) -> Connection:
    """Return the connection that a request came on."""
    assert isinstance(request.protocol, Connection)
    return request.protocol


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to ``host``.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """The rule of one server: on loopback by its own name only, elsewhere with the token only, as cookie or bearer.

    A page of a stranger could point its name at 127.0.0.1; its requests then carry that name as their host.
    """

    host: str
    port: int
    token: str | None

    @property
    def cookie(self) -> str:
        """The cookie's name; cookies do not tell ports apart."""
        return f"glimpse-{self.port}"

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request with these headers may be answered."""
        if self.token is None:
            try:
                return is_loopback(urlsplit(f"//{headers.get('Host', '')}").hostname or "")
            except ValueError:  # as of "[::1"
                return False
        scheme, _, said = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.matches(said.strip())
        try:
            cookies = SimpleCookie(headers.get("Cookie", ""))
        except CookieError:
            return False
        return self.cookie in cookies and self.matches(cookies[self.cookie].value)

    def matches(self, token: str) -> bool:
        """Return whether ``token`` is the right one, in a time that does not tell how much of it is."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())
