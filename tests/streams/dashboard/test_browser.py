"""The page in a real browser without a broker: tokens, restarts, keys, windows, and what it says of itself."""

from __future__ import annotations

import http.server
import threading
from contextlib import contextmanager

import pytest
from shown import CARD, CLICKED_ONCE, batch, buckets, impression, now_ms, snapshot

from schemas.codec import encode
from schemas.records import Click
from streams.dashboard.job.feed import State
from streams.dashboard.job.server import DashboardServer
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.logs import LogRecord
from streams.settings import Settings

STATUS = "document.querySelector('#status').innerText"
PRESSED = "document.querySelector('#windows [aria-pressed=true]').innerText"


def state(count=2, **options):
    return State(Settings(buckets=buckets(count)), source_name="a log", **options)


def look(*, bucket="b00", ago_s=60, **changes):
    """A look at four lists, each clicked once, shown some time ago."""
    now = now_ms()
    entries = {
        "samples": [WeightedRecord(0, LogRecord(0, now, b"", encode(batch(bucket, CLICKED_ONCE, now - ago_s * 1000))))],
        "parameters": [
            WeightedRecord(0, LogRecord(0, now, b"", encode(snapshot(buckets(3)[bucket], offset=1, at_ms=now))))
        ],
        "impressions": [WeightedRecord(0, LogRecord(0, now, b"", encode(impression("i", bucket, now - 5000))))],
        "clicks": [WeightedRecord(0, LogRecord(0, now, b"", encode(Click("i", "s", 1, now - 2000))))],
    }
    return LogUpdate(now, entries, **changes)


@contextmanager
def another_site(link):
    """A page of another site with a link."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = f'<link rel="icon" href="data:,"><a id="link" href="{link}">the dashboard</a>'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_a_link_with_the_token_works_from_another_site_and_a_new_token_is_said(browser):
    shown = state()
    shown.add(look())
    browser.screen(1280, 900)
    with DashboardServer(shown, token="right") as server:
        port = server.port
        with another_site(server.url) as url:
            browser.open(url)
            browser.wait("document.querySelector('#link')")
            browser.click("#link")
            browser.wait(f"{STATUS} === '● Live'")
        assert browser.run("location.href") == f"http://127.0.0.1:{port}/"
        browser.call("Page.reload")
        browser.wait(f"{STATUS} === '● Live'")
    browser.wait("document.querySelector('#notice').innerText.includes('does not answer')")
    with DashboardServer(shown, port=port, token="another"):
        browser.wait("document.querySelector('#notice').innerText.includes('token is no longer right')")
        assert browser.run(STATUS) == "✕ Not let in"
    with DashboardServer(shown, port=port, token="right"):
        browser.wait(f"{STATUS} === '● Live'", within_s=60)
        assert browser.run("document.querySelector('#notice').hidden")


def test_an_open_page_goes_on_with_a_restarted_server_and_keeps_nothing_of_the_old(browser):
    before, after = state(1), state(1)
    before.add(look())
    before.add(look(bucket="b01"))
    after.add(look(bucket="b02"))
    with DashboardServer(before) as server:
        port = server.port
        browser.open(server.url)
        browser.wait(f"{CARD.format('b01')}.includes('4 lists')")
        browser.wait("document.querySelectorAll('#snapshots tbody tr').length === 2")
    browser.wait(f"{STATUS} === '✕ Dashboard away'")
    with DashboardServer(after, port=port):
        browser.wait(f"{CARD.format('b02')}.includes('4 lists')")
        names = (
            "[...document.querySelectorAll('.card, #snapshots tbody tr')].map((one) => one.innerText.split(/\\s/)[0])"
        )
        assert browser.run(names) == ["b00", "b02", "b02"]
        assert browser.run(STATUS) == "● Live"


def test_everything_can_be_reached_with_keys(browser):
    shown = state()
    shown.add(look())
    shown.add(look(bucket="b01"))
    browser.screen(1280, 900)
    with DashboardServer(shown) as server:
        browser.open(server.url)
        browser.wait(f"{CARD.format('b01')}.includes('4 lists')")
        browser.run("document.querySelector('#sort').focus()")
        for _ in range(2):
            browser.press("Tab")
        assert browser.run("document.activeElement.dataset.bucket") == "b01"
        browser.press("Enter")
        browser.wait("document.querySelector('#chosen').innerText.includes('Bucket b01')")
        assert browser.run("document.activeElement.dataset.bucket") == "b01"  # and the focus stays
        browser.wait("document.querySelectorAll('#positions rect.bar').length === 6")
        for _ in range(3):
            browser.press("Tab")
        assert browser.run("document.activeElement.id") == "positions"
        for key, position in (("Home", 1), ("ArrowRight", 2), ("End", 6), ("ArrowLeft", 5)):
            browser.press(key)
            browser.wait(f"document.querySelector('#said').innerText.startsWith('position {position},')")
            assert browser.text("#tip").startswith(f"position {position}")
        labels = browser.run("[...document.querySelectorAll('.chart')].map((one) => one.getAttribute('aria-label'))")
        assert all(labels[:3]), labels
        assert labels[0].startswith("Clicks a list: last 1, from 1 to 1")
        assert labels[2].startswith("Click rate by position: 1 at 1, 0 at 6")
        assert browser.run("document.querySelector('#clock').closest('[aria-live]')") is None


def test_a_page_that_nobody_sees_gives_its_connection_back(browser):
    shown = state()
    with DashboardServer(shown) as server:
        shown.add(look())
        browser.open(server.url)
        browser.wait("document.querySelectorAll('.card').length === 2")
        assert server.streams == 1
        hide = "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}}); "
        tell = "document.dispatchEvent(new Event('visibilitychange'))"
        browser.run(hide.format("true") + tell)
        for _ in range(3):  # a closed line is noticed when something is written to it
            shown.add(look(bucket="b01"))
            threading.Event().wait(0.7)
        assert server.streams == 0
        assert "0 lists" in browser.run(CARD.format("b01"))
        browser.run(hide.format("false") + tell)
        browser.wait(f"{CARD.format('b01')}.includes('12 lists')")


def test_the_window_fits_the_data_until_one_is_chosen(browser):
    shown = state()
    shown.add(look())
    with DashboardServer(shown) as server:
        browser.open("about:blank")
        browser.open(server.url)
        browser.wait(f"{PRESSED} === '5 min' && {CARD.format('b00')}.includes('4 lists')")
        shown.add(look(ago_s=1200))
        browser.wait(f"{PRESSED} === '30 min' && {CARD.format('b00')}.includes('8 lists')")
        browser.click("[data-window='2h']")
        browser.wait(f"{PRESSED} === '2 h'")
        shown.add(look(ago_s=80_000))
        browser.wait(f"{CARD.format('b00')}.includes('8 lists')")
        browser.click("[data-window='24h']")
        browser.wait(f"{CARD.format('b00')}.includes('12 lists')")


SAYS = {
    "an archive": ({"consumers": False}, {}, f"{STATUS} === '■ Archive'"),
    "a share of the samples": ({}, {"share": 0.1}, f"{CARD.format('b00')}.includes('1 of 10 read')"),
    "a share, on the tile": (
        {},
        {"share": 0.1},
        "document.querySelector('[data-stream=lists]').innerText.includes('1 of 10 read')",
    ),
}


@pytest.mark.parametrize("options, changes, said", SAYS.values(), ids=SAYS)
def test_the_page_says_what_it_is_made_of(browser, options, changes, said):
    shown = state(**options)
    shown.add(look(**changes))
    with DashboardServer(shown) as server:
        browser.open(server.url)
        browser.wait(said)


def test_a_broken_part_is_said_and_the_others_are_drawn(browser, monkeypatch):
    shown = state()
    monkeypatch.setattr(shown.click_delays, "add", lambda *_, **__: [][1])
    shown.add(look())
    with DashboardServer(shown) as server:
        browser.open(server.url)
        browser.wait(f"{CARD.format('b00')}.includes('4 lists')")
        assert "Of delays not all could be shown (IndexError" in browser.text("#notice")
        assert browser.run(STATUS) == "● Live"
