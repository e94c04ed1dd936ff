"""The page's web server, with live updates, on a thread of its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from socket import gethostname
from threading import Event, Lock
from time import monotonic
from urllib.parse import parse_qs, urlsplit

from streams.dashboard.job.feed import Feed
from streams.dashboard.job.state import PageView, State
from streams.web import HEADERS, Access, WebError, WebThread, is_loopback

log = logging.getLogger(__name__)

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGES = ("page.html", "style.css", "icon.svg", "app.js", "charts.js", "format.js", "panels.js", "lag.js", "letters.js")
ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # listened on -> can be opened
MOST_STREAMS = 32
AT_LEAST_S = 0.5  # between two messages to a page
HEARTBEAT_S = 10.0  # without news, so that both ends notice a dead line


class DashboardServer(WebThread):
    """Serves the page, its updates, and the dead letters to look at.

    Parameters
    ----------
    state
        What is shown.
    host, port
        Where; port 0 takes any free one.
    token
        What a browser must bring; needed when others can reach ``host``.
    """

    def __init__(self, state: State, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        if token is None and not is_loopback(host):
            raise WebError(f"{host} can be reached by others; serve it with a token, or on 127.0.0.1")
        self.state, self.token = state, token
        self.stopping = Event()
        self.streams, self._lock = 0, Lock()
        folder = files("streams.dashboard")
        self.files = {f"/{name}": folder.joinpath(name).read_bytes() for name in PAGES}
        self.files["/"] = self.files.pop("/page.html")
        super().__init__("the dashboard", handler(self), host=host, port=port)
        self.access = Access(host, self.port, token)

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

    def stop(self) -> None:
        """End the streams, stop answering and free the port."""
        self.stopping.set()
        super().stop()

    def join_stream(self) -> bool:
        """Take one of the places for open pages; return False when there is none."""
        with self._lock:
            if self.streams >= MOST_STREAMS:
                return False
            self.streams += 1
            return True

    def leave_stream(self) -> None:
        """Give the place back."""
        with self._lock:
            self.streams -= 1

    def letters(self, name: str, query: dict[str, list[str]]) -> object:
        """Return one dead letter by its name, or the newest ones of a reason; None when there is none."""
        with self.state.changed:
            if name:
                return self.state.letters.open(name)
            number = query.get("reason", [""])[0]
            return self.state.letters.of_reason(int(number)) if number.isdecimal() else None

    def follow(self, view: PageView, write: Callable[[str], None]) -> None:
        """Write messages of server-sent events as there is news, until the server stops or the page is gone."""
        feed, version = Feed(view), -1
        write("retry: 1000\n\n")
        while not self.stopping.is_set():
            found = self.state.wait(version, HEARTBEAT_S)
            if found == version:
                write(": still here\n\n")
                continue
            version = found
            written_at = monotonic()
            write(f"data: {feed.message(self.state)}\n\n")
            self.stopping.wait(max(0.0, AT_LEAST_S - (monotonic() - written_at)))


def handler(server: DashboardServer) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers one connection for ``server``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "glimpse", ""
        timeout = 20.0  # a client that says nothing, or takes nothing, does not hold its thread

        def do_GET(self) -> None:
            if server.stopping.is_set():  # on a line that was kept open; who asks again meets who serves now
                self.close_connection = True
                return
            try:
                url = urlsplit(self.path)
                query = parse_qs(url.query)
            except ValueError:
                self._answer(400, b"that is no address\n")
                return
            if server.token is not None and server.access.matches(query.get("token", [""])[0]):
                self._welcome(url.path)
            elif not server.access.admits(self.headers):
                wanted = "open the address with its token" if server.token else "use 127.0.0.1 or localhost"
                self._answer(403, f"not for you here; {wanted}\n".encode())
            elif url.path in server.files:
                kind = KINDS["." + url.path.rpartition(".")[2]] if url.path != "/" else KINDS[".html"]
                self._answer(200, server.files[url.path], kind)
            elif url.path == "/events":
                self._stream(PageView(query.get("window", [""])[0], query.get("bucket", [""])[0]))
            elif url.path == "/letters" or url.path.startswith("/letters/"):
                found = server.letters(url.path.removeprefix("/letters").strip("/"), query)
                self._answer(404 if found is None else 200, json.dumps(found).encode(), "application/json")
            else:
                self._answer(404, b"not here; the page is at /\n")

        def _welcome(self, path: str) -> None:
            """Put the token into a cookie and out of the address, where it would be seen and kept.

            A link on another site must bring it too, so it is lax: nothing can be changed here by a request.
            """
            self.send_response(303)
            cookie = f"{server.access.cookie}={server.token}; HttpOnly; SameSite=Lax; Path=/"
            for name, value in {**HEADERS, "Set-Cookie": cookie, "Location": path, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, view: PageView) -> None:
            if not server.join_stream():
                self._answer(503, f"{MOST_STREAMS} pages are open already\n".encode())
                return
            try:
                self.send_response(200)
                for name, value in {**HEADERS, "Content-Type": "text/event-stream", "Connection": "close"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.close_connection = True
                server.follow(view, lambda text: self._write(text.encode()))
            except OSError:
                log.debug("a page was closed")
            finally:
                server.leave_stream()

        def _write(self, data: bytes) -> None:
            self.wfile.write(data)
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Keep requests, whose addresses may hold the token, out of the log."""

    return Handler
