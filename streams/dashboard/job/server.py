"""The dashboard's web server: the page, its live updates, and the dead letters to look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.resources import files
from itertools import count
from pathlib import Path
from socket import gethostname

from aiohttp import web

from streams.dashboard.job.feed import Feed, State
from streams.web import Access, WebError, WebServer, is_loopback

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # listened on -> can be opened
PAUSE_S = 0.5  # between two messages to a page
HEARTBEAT = 10  # pauses without news, so that both ends notice a dead line; less than the server gives for a step


class DashboardServer(WebServer):
    """Serves the page, its updates, and the dead letters to look at.

    When others can reach ``host``, a browser must bring the ``token``.
    """

    def __init__(self, state: State, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        if token is None and not is_loopback(host):
            raise WebError(f"{host} can be reached by others; serve it with a token, or on 127.0.0.1")
        super().__init__("the dashboard", host=host, port=port)
        self.state, self.token = state, token
        self.access = Access(host, self.port, token)
        parts = [part for part in files("streams.dashboard").iterdir() if Path(part.name).suffix in KINDS]
        self.files = {f"/{part.name}": part.read_bytes() for part in parts}
        self.files["/"] = self.files.pop("/page.html")

    @property
    def url(self) -> str:
        """What to open in a browser on this machine."""
        return self.address(ANYWHERE.get(self.host, self.host))

    @property
    def outside(self) -> str | None:
        """What to open on another machine when that can be said: the server listens on every address of this one."""
        return self.address(gethostname()) if self.host in ANYWHERE else None

    def address(self, host: str) -> str:
        """Return the page's address under a name of this machine."""
        named = f"[{host}]" if ":" in host else host
        return f"http://{named}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return a file, the stream of news, or dead letters, to whom it may concern."""
        path, query = request.path, request.query
        if self.access.matches(query.get("token", "")):
            return self._welcome()
        if not self.access.admits(request.headers):
            wanted = "open the address with its token" if self.token else "use 127.0.0.1 or localhost"
            raise web.HTTPForbidden(text=f"not for you here; {wanted}\n")
        if path in self.files:
            kind = KINDS[Path(path).suffix or ".html"]
            return web.Response(body=self.files[path], headers={"Content-Type": kind})
        if path == "/events":
            return await self.stream(request, self._news(Feed(query.get("window", ""), query.get("bucket", ""))))
        if path == "/letters" or path.startswith("/letters/"):
            name = path.removeprefix("/letters").strip("/")
            answer = await asyncio.to_thread(self._letters, name, query.get("reason", ""))
            return web.json_response(answer, status=404 if answer is None else 200)
        raise web.HTTPNotFound(text="not here; the page is at /\n")

    def _welcome(self) -> web.Response:
        """Put the token into a cookie and out of the address, where it would be seen and kept.

        A link on another site must bring it too, so it is lax: nothing can be changed here by a request.
        """
        cookie = f"{self.access.cookie}={self.token}; HttpOnly; SameSite=Lax; Path=/"
        return web.Response(status=303, headers={"Set-Cookie": cookie, "Location": "/"})

    def _letters(self, name: str, reason: str) -> object:
        """Return one dead letter by its name, or the newest ones of a reason; None when there is none."""
        with self.state.lock:
            if name:
                return self.state.letters.open(name)
            return self.state.letters.of_reason(int(reason)) if reason.isdecimal() and len(reason) < 10 else None

    async def _news(self, feed: Feed) -> AsyncIterator[str]:
        """Yield messages of server-sent events, whenever there is news."""
        version = -1
        yield "retry: 1000\n\n"
        for pause in count():
            if self.state.version != version:
                version = self.state.version
                message = await asyncio.to_thread(feed.message, self.state)
                yield f"data: {message}\n\n"
            elif pause % HEARTBEAT == 0:
                yield ": still here\n\n"
            await asyncio.sleep(PAUSE_S)
