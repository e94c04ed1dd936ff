"""What the clients of a web server cannot do to it, over real sockets."""

import asyncio
import http.client
import socket
import threading
import time
from contextlib import ExitStack, suppress
from itertools import count

import pytest
from aiohttp import web

from streams.web import WebError, WebServer, connections
from streams.web.connections import HEAD_BYTES, MOST_CONNECTIONS
from streams.web.server import MOST_STREAMS, MOST_WAITING

LARGE = b"x" * 50_000_000


class Pages(WebServer):
    """Every kind of page that a server may have."""

    methods = ("GET", "HEAD", "POST")
    body_bytes = 1000

    def __init__(self, **where) -> None:
        super().__init__("the pages", **where)
        self.ended = threading.Event()

    async def page(self, request):
        if request.path == "/":
            return web.Response(text="here\n")
        if request.path == "/large":
            return web.Response(body=LARGE)
        if request.path == "/read":
            return web.Response(text=f"{len(await request.read())}\n")
        if request.path == "/news":
            return await self.stream(request, self.news())
        if request.path == "/slow":
            try:
                await asyncio.sleep(60)
            finally:
                self.ended.set()
        raise RuntimeError("no such page")

    async def news(self):
        for number in count():
            yield f"data: {number}\n\n"
            await asyncio.sleep(0.05)


@pytest.fixture
def pages():
    with Pages() as server:
        yield server


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(connections, "STEP_S", 0.4)
    monkeypatch.setitem(connections.LIMITS, "keepalive_timeout", 0.4)


def connect(server: WebServer, said: bytes = b"") -> socket.socket:
    client = socket.create_connection((server.host, server.port), timeout=10)
    client.sendall(said)
    return client


def ask(server: WebServer, request: str = "GET /", **options) -> http.client.HTTPResponse:
    client = http.client.HTTPConnection(server.host, server.port, timeout=10)
    client.request(*request.split(), **options)
    answer = client.getresponse()
    answer.text = b"" if answer.headers["Content-Type"] == "text/event-stream" else answer.read()
    client.close()
    return answer


def is_cut(client: socket.socket, *, within_s: float) -> bool:
    """Whether the server hangs up, whatever it says before."""
    give_up_at = time.monotonic() + within_s
    with suppress(ConnectionError):
        while (left := give_up_at - time.monotonic()) > 0:
            client.settimeout(left)
            try:
                if not client.recv(1 << 20):
                    return True
            except TimeoutError:
                break
        return False
    return True


def held(clients: list[socket.socket]) -> int:
    """How many connections the server still holds open."""
    still_open = 0
    for client in clients:
        client.setblocking(False)
        try:
            client.recv(1)
        except BlockingIOError:
            still_open += 1
        except ConnectionError:
            pass
    return still_open


def test_500_dripping_clients_hold_few_connections_and_no_threads_and_keep_nobody_out(pages):
    ask(pages)
    threads = threading.active_count()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(pages, b"GET / HTTP/1.1\r\nHost: x\r\nX-Drip: ")) for _ in range(500)]
        took = []
        for _ in range(5):
            for client in clients:
                with suppress(OSError):
                    client.send(b"x")
            began = time.monotonic()
            assert ask(pages).text == b"here\n"
            took.append(time.monotonic() - began)
        assert 0 < held(clients) <= MOST_CONNECTIONS
        assert threading.active_count() == threads  # one for all of them
    assert sorted(took)[2] < 1


def test_open_streams_are_limited_and_outlive_a_flood_of_connections(pages):
    with ExitStack() as stack:
        streams = [
            stack.enter_context(connect(pages, b"GET /news HTTP/1.1\r\nHost: x\r\n\r\n")) for _ in range(MOST_STREAMS)
        ]
        assert all(stream.recv(10) for stream in streams)
        assert ask(pages, "GET /news").status == 503
        for _ in range(3 * MOST_CONNECTIONS):
            stack.enter_context(connect(pages))
        assert ask(pages).text == b"here\n"
        for stream in streams:
            assert not is_cut(stream, within_s=0.05)
    while pages.streams:
        time.sleep(0.02)
    with connect(pages, b"HEAD /news HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        assert is_cut(client, within_s=20)


DRIPS = {
    "a head": (b"GET / HTTP/1.1\r\n", b"X"),
    "a body": (b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n", b"x"),
    "a second head": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /", b"x"),
}


@pytest.mark.parametrize("said, drip", DRIPS.values(), ids=DRIPS)
def test_who_drips_is_cut_off(impatient, pages, said, drip):
    with connect(pages, said) as client:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 30 and not is_cut(client, within_s=0.05):
                client.send(drip)
        assert time.monotonic() - began < 20


def test_who_takes_nothing_is_cut_off(impatient, pages):
    for path in ("/large", "/slow"):
        with connect(pages, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) as client:
            time.sleep(5)
            found = bytearray()
            with suppress(ConnectionError):
                while data := client.recv(1 << 20):
                    found += data
            assert len(found) < len(LARGE)
    assert pages.ended.wait(20)  # nothing goes on for a client that is gone


def test_who_listens_to_a_stream_is_not_cut_off(monkeypatch, pages):
    monkeypatch.setattr(connections, "STEP_S", 2.0)
    monkeypatch.setitem(connections.LIMITS, "keepalive_timeout", 2.0)
    with connect(pages, b"GET /news HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        began, heard = time.monotonic(), 0
        while time.monotonic() - began < 6 or heard <= 10:
            data = client.recv(1000)
            assert data
            heard += data.count(b"data:")


HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
TOO_MUCH = {
    "a long address": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", b"400"),
    "a long header": (HEAD + b"X: " + b"x" * 9000 + b"\r\n\r\n", b"400"),
    "many headers": (HEAD + b"X: x\r\n" * 100 + b"\r\n", b"400"),
    "a head without end": (HEAD + b"".join(b"X%d: %s\r\n" % (n, b"x" * 8000) for n in range(20)), None),
    "a large body": (b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b"413"),
    "a large body that is not announced": (
        b"POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"7d0\r\n" + b"x" * 2000 + b"\r\n",
        b"413",
    ),
    "a body without end": (
        b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b"x" * 2 * HEAD_BYTES,
        None,
    ),
    "requests behind a stream": (b"GET /news HTTP/1.1\r\nHost: x\r\n\r\n" + (HEAD + b"\r\n") * 5000, b"200"),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("said, status", TOO_MUCH.values(), ids=TOO_MUCH)
def test_too_much_is_refused_or_cut(pages, said, status):
    with connect(pages) as client:
        with suppress(ConnectionError):
            client.sendall(said)
        with suppress(ConnectionError):
            assert client.recv(12)[9:] == (status or b"")
        assert is_cut(client, within_s=20)
    assert ask(pages).text == b"here\n"


def test_what_fits_is_taken(pages):
    assert ask(pages, "POST /read", body=b"x" * 1000).text == b"1000\n"
    assert ask(pages, "GET /", headers={"X": "x" * 8000}).text == b"here\n"


ANSWERS = {
    "GET /": 200,
    "HEAD /": 200,
    "HEAD /news": 200,
    "DELETE /": 405,
    "BREW /": 400,
    "GET /broken": 500,
    "POST /read": 200,
}


@pytest.mark.parametrize("request_line, status", ANSWERS.items(), ids=ANSWERS)
def test_no_answer_names_its_software_and_all_carry_the_policy(pages, request_line, status):
    answer = ask(pages, request_line)
    assert answer.status == status
    assert answer.headers["Server"] is None
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    if request_line == "HEAD /":
        assert (answer.headers["Content-Length"], answer.text) == ("5", b"")
    if status == 405:
        assert answer.headers["Allow"] == "GET,HEAD,POST"


def test_a_connection_may_be_used_again(pages):
    client = http.client.HTTPConnection(pages.host, pages.port, timeout=5)
    for _ in range(3):
        client.request("GET", "/")
        assert client.getresponse().read() == b"here\n"
    client.close()


def test_a_server_that_stops_ends_its_streams_and_frees_its_port(pages):
    with connect(pages, b"GET /news HTTP/1.1\r\nHost: x\r\n\r\n") as stream:
        assert stream.recv(10)
        began = time.monotonic()
        pages.stop()
        assert time.monotonic() - began < 20
        assert is_cut(stream, within_s=20)
    with Pages(port=pages.port) as again:
        assert ask(again).text == b"here\n"
        with pytest.raises(WebError, match="another port"):
            Pages(port=again.port)


def test_pages_that_wait_have_few_threads():
    class Waiting(WebServer):
        async def page(self, request):
            await asyncio.to_thread(time.sleep, 0.05)
            return web.Response(text="waited\n")

    threads = threading.active_count()
    with Waiting("waiting") as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(server, b"GET / HTTP/1.0\r\n\r\n")) for _ in range(20)]
        assert all(client.recv(12).endswith(b"200") for client in clients)
        assert threading.active_count() <= threads + 1 + MOST_WAITING


def test_aiohttp_still_names_itself_and_has_no_public_hook_for_the_headers_of_a_bare_server():
    """What fails here says that ``PageRequest._prepare_hook`` is no longer needed, or no longer called."""

    async def asked() -> str:
        async def answer(request):
            return web.Response()

        server = await asyncio.get_running_loop().create_server(web.Server(answer), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        head = await reader.read()
        writer.close()
        server.close()
        return head.decode()

    assert "\r\nServer: " in asyncio.run(asked())
    assert not [name for name in dir(web.Server) + dir(web.BaseRequest) if "prepare" in name and name[0] != "_"]
    assert "_prepare_hook" in vars(web.BaseRequest)
