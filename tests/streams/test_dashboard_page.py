"""What travels to the page, who gets it, and where it may come from."""

import http.client
import json
import re
from importlib.resources import files
from pathlib import Path
from socket import gethostname

import numpy as np
import pytest
from shown import batch, buckets, impression, snapshot

from schemas.codec import encode
from schemas.records import Click, DeadLetter
from streams.archive import Archive, LogWriter
from streams.archiving.log_block import LogBlock, LogRecord
from streams.dashboard import archive_source
from streams.dashboard.access import Access
from streams.dashboard.archive_source import ArchiveSource
from streams.dashboard.feed import BY_ROW, Feed
from streams.dashboard.server import PAGES, DashboardServer
from streams.dashboard.source import Entry, Look
from streams.dashboard.state import State, View
from streams.parameters import SourceAway
from streams.settings import Settings
from streams.web import WebError

NOW = 1_700_000_000_000


def state(count=3):
    return State(Settings(buckets=buckets(count)), source_name="a log", clock=lambda: NOW / 1000)


def look(number, *, bucket="b00", lists=2):
    clicks = np.eye(6)[np.arange(lists) % 6]
    shown = NOW + number * 1000 - 60_000
    letter = DeadLetter("clicks", 0, number, NOW, None, b"\x01\x02", f"position {number} is beyond the list of 6")
    made = snapshot(buckets(3)[bucket], offset=number, at_ms=NOW + number * 1000)
    return Look(
        NOW + number * 1000,
        {
            "samples": [Entry(0, number, NOW + number * 1000, b"", encode(batch(bucket, clicks, shown)))],
            "parameters": [Entry(0, number, NOW + number * 1000, b"", encode(made))],
            "dead-letters": [Entry(0, number, NOW + number * 1000, b"", encode(letter))],
            "impressions": [Entry(0, number, NOW, b"", encode(impression(f"i{number}", bucket, shown)))],
            "clicks": [Entry(0, number, NOW, b"", encode(Click(f"i{number}", "s", 1, shown + 3000)))],
        },
        {"samples": {0: number + 1}},
    )


def take(have, message):
    """Do with a message what app.js does."""
    for name, news in json.loads(message).items():
        if name in ("ctr", "flow"):
            if news.get("new"):
                have[name] = {}
            have[name] |= {"width": news["width"]} | {str(number): values for number, values in news["bins"]}
        elif name in BY_ROW:
            rows = have.setdefault(name, {})
            rows.update(news["set"])
            for key in news.get("gone", []):
                del rows[key]
        else:
            have[name] = news["is"]
    return have


@pytest.mark.parametrize("window", ["30m", "all"])
def test_changes_add_up_to_what_a_new_page_is_sent(window):
    shown, view = state(), View(window, "b01")
    following, have, sizes = Feed(view), {}, []
    for number in range(30):
        shown.add(look(number, bucket=f"b{number % 3:02}"))
        message = following.message(shown)
        sizes.append(len(message))
        take(have, message)
    fresh = take({}, Feed(view).message(shown))
    for name in ("ctr", "flow"):  # bins that have left the window may stay with an old page, which does not draw them
        assert fresh[name].items() <= have[name].items()
    old = {name: section for name, section in have.items() if name not in ("ctr", "flow")}
    assert old == {name: section for name, section in fresh.items() if name not in ("ctr", "flow")}
    assert have["chosen"]["name"] == "b01"
    assert have["delays"]["click"]["p50"] == pytest.approx(3, rel=0.15)


def test_without_news_only_the_time_travels():
    shown = state()
    shown.add(look(1))
    feed = Feed(View())
    feed.message(shown)
    assert set(json.loads(feed.message(shown))) <= {"now"}


def test_trouble_is_said_and_forgotten_when_it_is_over():
    shown, feed = state(), Feed(View())
    shown.fail("Kafka is away")
    assert json.loads(feed.message(shown))["status"]["is"]["trouble"] == "Kafka is away"
    shown.add(look(1))
    assert json.loads(feed.message(shown))["status"]["is"]["trouble"] is None


def test_one_part_that_fails_is_said_and_the_others_go_on(monkeypatch):
    shown, feed = state(), Feed(View())
    monkeypatch.setattr(shown.loop, "add_impressions", lambda shown: 1 // 0)
    monkeypatch.setattr(shown, "_letter_rows", lambda: {}["gone"])
    shown.add(look(1))
    news = json.loads(feed.message(shown))
    assert news["status"]["is"]["trouble"] is None
    broken = news["status"]["is"]["broken"]
    assert broken["freshness"] == ["ZeroDivisionError: integer division or modulo by zero", NOW]
    assert "KeyError" in broken["letters"][0]
    assert shown.letters.total == 1
    assert news["delays"]["is"]["click"]["p50"] == pytest.approx(3, rel=0.06)
    assert sum(values[0] for _, values in news["ctr"]["bins"]) == 2
    shown._clock = lambda: NOW / 1000 + 700
    monkeypatch.undo()
    shown.add(look(2))
    assert json.loads(feed.message(shown))["status"]["is"]["broken"] == {}


def lists_of(number, version):
    at = NOW + number * 1000
    return Entry(0, number, at, b"", encode(impression(f"i{number}", "b00", at, ranked_by=version)))


def test_a_version_from_nowhere_breaks_nothing():
    shown = state()
    shown.add(Look(NOW, {"impressions": [lists_of(0, (2**31 - 1, 2**62)), lists_of(1, (600_000, 5))]}))
    for number in range(2, 40):
        made = encode(snapshot(buckets(1)["b00"], offset=number, at_ms=NOW + number * 1000))
        entries = {
            "parameters": [Entry(0, number, NOW + number * 1000, b"", made)],
            "impressions": [lists_of(number, (1, number - 1))],
        }
        shown.add(Look(NOW + number * 1000, entries))
    assert json.loads(Feed(View()).message(shown))["status"]["is"]["broken"] == {}
    assert shown.loop.rows["b00"][9] >= 30
    assert shown.loop.rows["b00"][10] == 0


def test_events_that_the_join_refuses_are_not_shown():
    shown = state()
    dates = [-(2**63), NOW - 3_000_000, NOW + 1_000_000, 2**63 - 1]
    odd = [Entry(0, 0, NOW, b"", encode(impression("i", "b00", date))) for date in dates]
    clicks = [Entry(0, 0, NOW, b"", encode(Click("i", "s", 1, date))) for date in dates]
    shown.add(Look(NOW, {"impressions": odd, "clicks": clicks}))
    assert shown.click_delays.delays == {}
    assert json.loads(Feed(View()).message(shown))["status"]["is"]["broken"] == {}


def test_names_of_buckets_that_nobody_has_take_no_room():
    shown = state(1)
    for number in range(300):
        name, at = f"i{number}", NOW + number * 1000
        events = {
            "impressions": [Entry(0, 0, at, b"", encode(impression(name, f"user-{number}", at, ranked_by=(1, 3))))],
            "clicks": [Entry(0, 0, at, b"", encode(Click(name, "s", 1, at)))],
        }
        shown.add(Look(at, events))
    assert shown.loop.rows == shown.click_delays.delays == shown.loop._freshness._buckets == {}


def loop_of(count, *, impressions_from=0):
    """One clicked list a second: joined after 60 s, learned and published at once, served 2 s later."""
    made: dict[str, list[Entry]] = {topic: [] for topic in ("impressions", "clicks", "samples", "parameters")}
    for second in range(count):
        at = NOW + second * 1000
        shown = impression(f"i{second}", "b00", at, ranked_by=(1, max(0, second - 62)))
        if second >= impressions_from:
            made["impressions"].append(Entry(0, second, at, b"", encode(shown)))
        made["clicks"].append(Entry(0, second, at, b"", encode(Click(f"i{second}", "s", 1, at))))
        if second >= 60:
            joined = batch("b00", [[1] + [0] * 5], at - 60_000, ids=[f"i{second - 60}"])
            made["samples"].append(Entry(0, second - 60, at, b"", encode(joined)))
        if second >= 60 or not second:
            version = snapshot(buckets(1)["b00"], offset=max(0, second - 59), at_ms=at)
            made["parameters"].append(Entry(0, second, at, b"", encode(version)))
    return made


def test_a_page_opened_in_the_middle_tells_the_same_times_as_one_that_saw_it_all():
    times = []
    for impressions_from in (0, 700):
        shown = State(Settings(buckets=buckets(1), wait_s=60, lateness_s=60), source_name="a log", clock=lambda: 0)
        shown.add(Look(NOW + 900_000, loop_of(900, impressions_from=impressions_from)))
        times.append(shown.loop.rows["b00"])
    assert [row[3] for row in times] == [3, 3]  # published to served: 2 s, and a second between two versions
    assert times[1][:6] == times[0][:6]
    assert 100 < times[1][6] < times[0][6]


def test_freshness_is_told_at_the_end_of_an_archive_where_time_stands_still():
    wall = [100.0]
    shown = State(Settings(buckets=buckets(1), wait_s=60), source_name="a log", clock=lambda: wall[0])
    made = loop_of(200)
    shown.add(Look(NOW + 199_000, made | {"impressions": []}))
    assert shown.loop.rows["b00"][6] == 0
    shown.add(Look(NOW + 199_000, {"impressions": made["impressions"]}, behind=True))
    wall[0] += 6
    shown.add(Look(NOW + 199_000, {}))
    assert shown.loop.rows["b00"][6] > 100


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


def test_every_answer_forbids_what_is_not_ours():
    with DashboardServer(state()) as server:
        for path in ("/", "/app.js", "/style.css", "/events", "/letters?reason=1", "/nothing", "/../pyproject.toml"):
            _, headers, _ = get(server, path)
            assert "default-src 'none'" in headers["Content-Security-Policy"], path
            assert headers["X-Content-Type-Options"] == "nosniff"
        assert get(server, "/")[0] == 200
        assert get(server, "/events")[2] == b"retry: 1000\n"
        statuses = {
            path: get(server, path)[0] for path in ("/../run.py", "/run.py", "/letters/0-0", "/letters?reason=x")
        }
        assert set(statuses.values()) == {404}


def test_the_page_names_no_other_host():
    for name in PAGES:
        text = files("streams.dashboard").joinpath(name).read_text(encoding="utf-8")
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


def write(archive, topic, records):
    archive.add_topic(topic, partitions=1)
    writer = LogWriter(archive.log(topic, 0))
    for number, (at_ms, record) in enumerate(records, writer.next_offset):
        writer.append(LogBlock.of([LogRecord(number, at_ms, b"k", encode(record))]))
    writer.close()


def test_an_archive_is_read_in_the_order_of_its_time_and_followed(tmp_path: Path):
    archive = Archive(tmp_path)
    lists = [(NOW + n * 1000, batch("b00", [[1, 0, 0, 0, 0, 0]], NOW + n * 1000 - 600)) for n in range(20)]
    write(archive, "samples", lists[:10])
    write(archive, "impressions", [(NOW + n * 1000 + 1, impression(f"i{n}", "b00", NOW + n * 1000)) for n in range(10)])
    source, shown = ArchiveSource(tmp_path), state()
    found = source.look()
    assert not found.behind
    assert found.at_ms == NOW + 9001
    assert [len(found.entries[topic]) for topic in ("samples", "impressions")] == [10, 10]
    shown.add(found)
    assert source.look().entries == {}
    write(archive, "samples", lists[10:])
    more = source.look()
    shown.add(more)
    assert [entry.offset for entry in more.entries["samples"]] == list(range(10, 20))
    assert shown.rates.timelines["all"].values.sum(axis=0)[0].tolist() == [20, 20, 20]


def test_an_archive_larger_than_a_look_is_not_read_ahead_of_its_other_topics(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(archive_source, "LOOK_BYTES", 1000)
    archive, made = Archive(tmp_path), loop_of(120)
    for topic, entries in made.items():  # in blocks of uneven length
        archive.add_topic(topic, partitions=1)
        writer, size = LogWriter(archive.log(topic, 0)), {"samples": 50, "clicks": 7}.get(topic, 20)
        records = [LogRecord(number, entry.timestamp_ms, b"k", entry.value) for number, entry in enumerate(entries)]
        for first in range(0, len(records), size):
            writer.append(LogBlock.of(records[first : first + size]))
        writer.close()
    source, last_ms = ArchiveSource(tmp_path), 0
    shown = State(Settings(buckets=buckets(1), wait_s=60, lateness_s=60), source_name="a log", clock=lambda: 0)
    looks = []
    while not looks or looks[-1].behind:
        looks.append(source.look())
        times = [entry.timestamp_ms for entries in looks[-1].entries.values() for entry in entries]
        assert min(times, default=last_ms) >= last_ms
        last_ms = max(times, default=last_ms)
        shown.add(looks[-1])
    assert len(looks) > 5
    assert [len([entry for one in looks for entry in one.entries.get(topic, [])]) for topic in made] == [
        len(entries) for entries in made.values()
    ]
    assert shown.loop.rows["b00"][6] > 50


def test_a_directory_without_an_archive_is_away(tmp_path: Path):
    with pytest.raises(SourceAway, match="no archive"):
        ArchiveSource(tmp_path).look()
