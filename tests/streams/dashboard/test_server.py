"""Who gets the page, and where it is served."""

import http.client
import re
from importlib.resources import files
from pathlib import Path
from socket import gethostname

import pytest
from shown import state

from streams.dashboard.job.server import KINDS, DashboardServer
from streams.web import Access, WebError


def get(server, path, headers=None):
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        line.putrequest("GET", path, skip_host=True)
        for name, value in ({"Host": f"127.0.0.1:{server.port}"} | (headers or {})).items():
            line.putheader(name, value)
        line.endheaders()
        answer = line.getresponse()
        stream = answer.headers["Content-Type"] == "text/event-stream"
        body = answer.readline() if stream else answer.read()
        return answer.status, answer.headers, body
    finally:
        line.close()


LETTERS = [f"/letters?reason={number}" for number in ("x", "9" * 5000, "-1", "%FF", "")] + ["/letters"]


def test_every_answer_forbids_what_is_not_ours():
    with DashboardServer(state()) as server:
        for path in ("/", "/app.js", "/style.css", "/events", "/letters?reason=1", "/nothing", "/../pyproject.toml"):
            _, headers, _ = get(server, path)
            assert "default-src 'none'" in headers["Content-Security-Policy"], path
            assert headers["X-Content-Type-Options"] == "nosniff"
        assert get(server, "/")[0] == 200
        assert get(server, "/events")[2] == b"retry: 1000\n"
        statuses = {path: get(server, path)[0] for path in ("/../run.py", "/run.py", "/letters/0-0", *LETTERS)}
        assert set(statuses.values()) == {404}


def test_the_page_names_no_other_host():
    served = {part.name: part for part in files("streams.dashboard").iterdir() if Path(part.name).suffix in KINDS}
    assert {"page.html", "app.js", "style.css"} <= served.keys()
    for name, part in served.items():
        text = part.read_text(encoding="utf-8")
        hosts = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text))
        assert hosts <= {"http://www.w3.org"}, name  # the name of SVG, which nobody fetches
        assert " style=" not in text, f"{name} has a style that the policy forbids"
        assert "innerHTML" not in text, f"{name} could take a record's text for markup"


HOSTS = {
    "127.0.0.1:6068": True,
    "localhost:6068": True,
    "[::1]:6068": True,
    "glimpse.example.org": False,
    "127.0.0.1.example.org": False,
    "": False,
    "[::1": False,
}


@pytest.mark.parametrize("host, admitted", HOSTS.items(), ids=HOSTS)
def test_on_loopback_only_the_own_name_is_answered(host, admitted):
    assert Access("127.0.0.1", 6068, None).admits({"Host": host}) is admitted
    with DashboardServer(state()) as server:
        assert get(server, "/", {"Host": host})[0] == (200 if admitted else 403)


def test_beyond_loopback_a_token_is_needed():
    with pytest.raises(WebError, match="token"):
        DashboardServer(state(), host="0.0.0.0")
    with DashboardServer(state(), token="right") as server:
        assert get(server, "/")[0] == 403
        assert get(server, "/events", {"Cookie": f"glimpse-{server.port}=wrong"})[0] == 403
        assert get(server, "/?token=wrong")[0] == 403
        status, headers, _ = get(server, "/?token=right")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly; SameSite=Lax" in headers["Set-Cookie"]  # a link from another site is followed with it
        cookie = headers["Set-Cookie"].partition(";")[0]
        assert get(server, "/", {"Cookie": cookie, "Host": "any.example.org"})[0] == 200
        assert get(server, "/events", {"Cookie": cookie})[0] == 200
        assert server.url.endswith("/?token=right")


def test_what_is_printed_can_be_opened():
    with DashboardServer(state(), host="0.0.0.0", token="right") as server:
        assert server.url == f"http://127.0.0.1:{server.port}/?token=right"
        assert server.outside == f"http://{gethostname()}:{server.port}/?token=right"
        assert get(server, "/?token=right")[0] == 303
    with DashboardServer(state()) as server:
        assert server.outside is None


def test_an_address_that_is_none_is_refused():
    with DashboardServer(state()) as server:
        assert get(server, "http://[")[0] == 400


def test_a_port_in_use_is_said():
    with DashboardServer(state()) as server, pytest.raises(WebError, match="another port"):
        DashboardServer(state(), port=server.port)
