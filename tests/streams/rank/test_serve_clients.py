"""What clients cannot do to the ranking service: bodies, slowness, crowds."""

import json
import socket
import time
from contextlib import ExitStack

import psutil
import pytest
from ranking import Client, serving, write_npz

from streams.rank.job import RankServer
from streams.rank.job.server import BODIES_BYTES, BODY_BYTES
from streams.settings import Bucket, Settings
from streams.web import connections

SETTINGS = Settings(kafka="127.0.0.1:9", buckets={"main": Bucket("main")})
HEAD = b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def server(tmp_path):
    with serving(SETTINGS, source=str(tmp_path), catalogue=write_npz(tmp_path / "shop.npz")) as running:
        yield running


def connect(server: RankServer, said: bytes = b"") -> socket.socket:
    client = socket.create_connection((server.host, server.port), timeout=20)
    client.sendall(said)
    return client


def begin_to_connect(server: RankServer) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((server.host, server.port))
    return client


def send_all_of(client: socket.socket, part: bytes, *, times: int) -> int:
    """Return how often a part could be said before the server hung up."""
    for count in range(times):
        try:
            client.sendall(part)
        except ConnectionError:
            return count
    return times


def request(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def heard(client: socket.socket) -> bytes:
    """What the server says until it hangs up or is silent."""
    found = b""
    try:
        while part := client.recv(1 << 16):
            found += part
            if b"\r\n\r\n" in found:
                break
    except (ConnectionError, TimeoutError):
        pass
    return found


def test_ten_megabytes_are_too_many_and_cost_little(server):
    body = json.dumps({"user": "u" * 10_000_000}).encode()
    assert Client(server).post("/rank", body).status == 413
    memory = psutil.Process().memory_info().rss
    chunked = connect(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    said = send_all_of(chunked, b"10000\r\n" + b"x" * 65536 + b"\r\n", times=1600)
    assert said < 1600, "more was heard than a body may have"
    assert psutil.Process().memory_info().rss - memory < 4 * BODY_BYTES + (8 << 20)
    assert Client(server).post("/rank", {"user": "u"}).status == 200


def test_many_large_bodies_at_once_are_refused(server):
    with ExitStack() as stack:
        promised = HEAD + b"Content-Length: %d\r\n\r\n" % BODY_BYTES
        for _ in range(BODIES_BYTES // BODY_BYTES):
            stack.enter_context(connect(server, promised + b'{"user": "'))
        deadline = time.monotonic() + 10
        while (said := Client(server).post("/rank", {"user": "u"})).status == 200 and time.monotonic() < deadline:
            time.sleep(0.01)  # until all of them are being read
        assert (said.status, said.headers["Retry-After"]) == (503, "1")
    while (said := Client(server).post("/rank", {"user": "u"})).status == 503 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert said.status == 200


def test_who_sends_slowly_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(connections, "STEP_S", 2.0)
    slow = connect(server, request(b'{"user": "u"}')[:-4])
    assert Client(server).post("/rank", {"user": "u"}).status == 200
    assert heard(slow) == b""  # hung up


def test_a_thousand_connections_keep_nobody_out(server):
    memory = psutil.Process().memory_info().rss
    with ExitStack() as stack:
        idle = [stack.enter_context(begin_to_connect(server)) for _ in range(1000)]
        for client in idle:
            client.settimeout(20)
            client.send(b"")  # connected now
        assert Client(server).post("/rank", {"user": "u"}).status == 200
        for client in idle:
            client.sendall(request(b'{"user": "u", "size": 3}'))
        answers = [heard(client).split(b"\r\n", 1)[0] for client in idle]
        assert set(answers) <= {b"HTTP/1.1 200 OK", b"HTTP/1.1 503 Service Unavailable"}
        assert answers.count(b"HTTP/1.1 200 OK") > 100
    assert psutil.Process().memory_info().rss - memory < 150 << 20


def test_who_waited_longer_than_the_deadline_is_told_at_once(tmp_path):
    with (
        serving(SETTINGS, source=str(tmp_path), catalogue=write_npz(tmp_path / "s.npz"), deadline_s=0.3) as server,
        ExitStack() as stack,
    ):
        choose = server.service.models.in_use
        server.service.models.in_use = lambda bucket: time.sleep(0.01) or choose(bucket)  # a busy machine
        batch = Client(server).post("/rank", [{"user": "u"}] * 100)
        assert batch.status == 200
        assert 1 <= sum("items" in one for one in batch.found) < 100
        assert batch.found[-1] == {"error": "the deadline came before this request's turn"}
        crowd = [stack.enter_context(connect(server, request(b'{"user": "u"}'))) for _ in range(100)]
        answers = [heard(client).split(b" ", 2)[1] for client in crowd]
        assert {b"200", b"503"} == set(answers)


def test_users_and_namespaces_that_nobody_knows(tmp_path):
    lines = [
        {"recipe": ["item", "user"]},
        *({"item": n, "features": [n / 100] * 9} for n in range(20)),
        {"user": "u1", "features": [0.5]},
    ]
    shop = tmp_path / "shop.jsonl"
    shop.write_text("\n".join(map(json.dumps, lines)))
    with serving(SETTINGS, source=str(tmp_path), catalogue=shop) as server:
        client = Client(server)
        assert client.post("/rank", {"user": "u1"}).found["user_known"] is True
        said = client.post("/rank", {"user": "u2"})
        assert (said.status, said.found["user_known"]) == (200, False)
        assert client.post("/rank", {"user": "u2", "user_features": [0.1]}).found["user_known"] is True
        said = client.post("/rank", {"user": "u2", "user_features": [0.1, 0.2]})
        assert (said.status, said.found["error"]) == (400, "user_features must be 1 numbers, got 2")
        assert client.post("/rank", {"user": "u2", "user_features": [2.0]}).status == 400
        assert client.post("/rank", {"user": "u2", "namespace": "other"}).status == 404
        assert "glimpse_serve_lists_for_strangers_total 1.0" in client.get("/metrics").found


def test_who_was_silent_for_longer_than_the_deadline_is_answered(tmp_path):
    shop = write_npz(tmp_path / "shop.npz")
    with serving(SETTINGS, source=str(tmp_path), catalogue=shop, deadline_s=2.0) as server:
        head, body = request(b'{"user": "u"}')[:-13], b'{"user": "u"}'
        with connect(server) as client:
            for _ in range(2):
                client.sendall(head)
                time.sleep(0.4)  # the body comes after the head was heard
                client.sendall(body)
                assert b"HTTP/1.1 200" in heard(client)
                time.sleep(2.5)  # longer than the deadline
