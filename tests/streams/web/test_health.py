"""The health pages over real HTTP."""

import http.client
import socket
import struct
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from streams.web import CONTENT_TYPE, Health, WebError


def get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_pages_follow_the_checks():
    state = {"ready": "partition 2 is being restored"}
    with Health(live=lambda: None, ready=lambda: state["ready"], metrics=lambda: "glimpse_x 1\n") as health:
        assert get(f"{health.url}/livez") == (200, "ok\n")
        assert get(f"{health.url}/readyz") == (503, "partition 2 is being restored\n")
        state["ready"] = None
        assert get(f"{health.url}/readyz?verbose") == (200, "ok\n")
        assert get(f"{health.url}/metrics") == (200, "glimpse_x 1\n")
        status, text = get(f"{health.url}/")
        assert status == 404
        assert "/livez /readyz /metrics" in text


def test_a_check_that_breaks_is_told_and_the_server_goes_on():
    def broken() -> None:
        raise RuntimeError("no group")

    with Health(live=broken, ready=lambda: None, metrics=str) as health:
        assert get(f"{health.url}/livez") == (500, "RuntimeError: no group\n")
        assert get(f"{health.url}/readyz") == (200, "ok\n")


def test_a_taken_port_is_named():
    with (
        Health(live=lambda: None, ready=lambda: None, metrics=str) as first,
        pytest.raises(WebError, match=f"127.0.0.1:{first.port}.*another port"),
    ):
        Health(live=lambda: None, ready=lambda: None, metrics=str, port=first.port)


def test_a_client_that_says_nothing_holds_nobody_back():
    with Health(live=lambda: None, ready=lambda: None, metrics=str) as health:
        with socket.create_connection((health.host, health.port)):
            assert get(f"{health.url}/livez") == (200, "ok\n")
            started = time.monotonic()
            health.stop()
            assert time.monotonic() - started < 4
        with pytest.raises(OSError):
            socket.create_connection((health.host, health.port), timeout=1)


def ask(health: Health, method: str, path: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(health.host, health.port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type"), answer.read()
    connection.close()
    return found


METHODS = {
    "HEAD /metrics": (200, CONTENT_TYPE, b""),
    "GET /metrics?name=x": (200, CONTENT_TYPE, b"glimpse_x 1\n"),
    "HEAD /livez": (200, "text/plain; charset=utf-8", b""),
    "POST /metrics": (405, "text/plain; charset=utf-8", b"use GET or HEAD\n"),
}


@pytest.mark.parametrize("request_line, wanted", METHODS.items(), ids=METHODS)
def test_a_probe_may_ask_in_other_ways(request_line, wanted):
    with Health(live=lambda: None, ready=lambda: None, metrics=lambda: "glimpse_x 1\n") as health:
        assert ask(health, *request_line.split()) == wanted


def test_a_client_that_hangs_up_leaves_no_traceback(capfd):
    with Health(live=lambda: None, ready=lambda: None, metrics=lambda: "# x\n" * 5_000_000) as health:
        with socket.create_connection((health.host, health.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            client.recv(10)
        time.sleep(0.5)
        assert get(f"{health.url}/livez") == (200, "ok\n")
    assert capfd.readouterr().err == ""
