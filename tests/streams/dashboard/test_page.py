"""What travels to the page."""

import json

import numpy as np
import pytest
from shown import NOW, batch, buckets, impression, loop_of, snapshot, state

from schemas.codec import encode
from schemas.records import Click, DeadLetter
from streams.dashboard import sections
from streams.dashboard.job.feed import BY_ROW, Feed, State
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.logs import LogRecord
from streams.settings import Settings


def look(number, *, bucket="b00", lists=2):
    clicks = np.eye(6)[np.arange(lists) % 6]
    shown = NOW + number * 1000 - 60_000
    letter = DeadLetter("clicks", 0, number, NOW, None, b"\x01\x02", f"position {number} is beyond the list of 6")
    made = snapshot(buckets(3)[bucket], offset=number, at_ms=NOW + number * 1000)
    return LogUpdate(
        NOW + number * 1000,
        {
            "samples": [
                WeightedRecord(0, LogRecord(number, NOW + number * 1000, b"", encode(batch(bucket, clicks, shown))))
            ],
            "parameters": [WeightedRecord(0, LogRecord(number, NOW + number * 1000, b"", encode(made)))],
            "dead-letters": [WeightedRecord(0, LogRecord(number, NOW + number * 1000, b"", encode(letter)))],
            "impressions": [
                WeightedRecord(0, LogRecord(number, NOW, b"", encode(impression(f"i{number}", bucket, shown))))
            ],
            "clicks": [
                WeightedRecord(0, LogRecord(number, NOW, b"", encode(Click(f"i{number}", "s", 1, shown + 3000))))
            ],
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
    shown, view = state(), (window, "b01")
    following, have, sizes = Feed(*view), {}, []
    for number in range(30):
        shown.add(look(number, bucket=f"b{number % 3:02}"))
        message = following.message(shown)
        sizes.append(len(message))
        take(have, message)
    fresh = take({}, Feed(*view).message(shown))
    for name in ("ctr", "flow"):  # bins that have left the window may stay with an old page, which does not draw them
        assert fresh[name].items() <= have[name].items()
    old = {name: section for name, section in have.items() if name not in ("ctr", "flow")}
    assert old == {name: section for name, section in fresh.items() if name not in ("ctr", "flow")}
    assert have["chosen"]["name"] == "b01"
    assert have["delays"]["click"]["p50"] == pytest.approx(3, rel=0.15)


def test_without_news_only_the_time_travels():
    shown = state()
    shown.add(look(1))
    feed = Feed()
    feed.message(shown)
    assert set(json.loads(feed.message(shown))) <= {"now"}


def test_trouble_is_said_and_forgotten_when_it_is_over():
    shown, feed = state(), Feed()
    shown.fail("Kafka is away")
    assert json.loads(feed.message(shown))["status"]["is"]["trouble"] == "Kafka is away"
    shown.add(look(1))
    assert json.loads(feed.message(shown))["status"]["is"]["trouble"] is None


def test_one_part_that_fails_is_said_and_the_others_go_on(monkeypatch):
    shown, feed = state(), Feed()
    monkeypatch.setattr(shown.loop, "add_impression", lambda *_: 1 // 0)
    monkeypatch.setattr(sections, "_letter_rows", lambda page: {}["gone"])
    shown.add(look(1))
    news = json.loads(feed.message(shown))
    assert news["status"]["is"]["trouble"] is None
    broken = news["status"]["is"]["broken"]
    assert broken["freshness"] == ["ZeroDivisionError: integer division or modulo by zero", NOW]
    assert "KeyError" in broken["letters"][0]
    assert shown.letters.total == 1
    assert news["delays"]["is"]["click"]["p50"] == pytest.approx(3, rel=0.06)
    assert sum(values[0] for _, values in news["ctr"]["bins"]) == 2
    shown.clock = lambda: NOW / 1000 + 700
    monkeypatch.undo()
    shown.add(look(2))
    assert json.loads(feed.message(shown))["status"]["is"]["broken"] == {}


def lists_of(number, version):
    at = NOW + number * 1000
    return WeightedRecord(0, LogRecord(number, at, b"", encode(impression(f"i{number}", "b00", at, ranked_by=version))))


def test_a_version_from_nowhere_breaks_nothing():
    shown = state()
    shown.add(LogUpdate(NOW, {"impressions": [lists_of(0, (2**31 - 1, 2**62)), lists_of(1, (600_000, 5))]}))
    for number in range(2, 40):
        made = encode(snapshot(buckets(1)["b00"], offset=number, at_ms=NOW + number * 1000))
        entries = {
            "parameters": [WeightedRecord(0, LogRecord(number, NOW + number * 1000, b"", made))],
            "impressions": [lists_of(number, (1, number - 1))],
        }
        shown.add(LogUpdate(NOW + number * 1000, entries))
    assert json.loads(Feed().message(shown))["status"]["is"]["broken"] == {}
    assert shown.loop.rows["b00"][9] >= 30
    assert shown.loop.rows["b00"][10] == 0


def test_events_that_the_join_refuses_are_not_shown():
    shown = state()
    dates = [-(2**63), NOW - 3_000_000, NOW + 1_000_000, 2**63 - 1]
    odd = [WeightedRecord(0, LogRecord(0, NOW, b"", encode(impression("i", "b00", date)))) for date in dates]
    clicks = [WeightedRecord(0, LogRecord(0, NOW, b"", encode(Click("i", "s", 1, date)))) for date in dates]
    shown.add(LogUpdate(NOW, {"impressions": odd, "clicks": clicks}))
    assert shown.click_delays.delays == {}
    assert json.loads(Feed().message(shown))["status"]["is"]["broken"] == {}


def test_names_of_buckets_that_nobody_has_take_no_room():
    shown = state(1)
    for number in range(300):
        name, at = f"i{number}", NOW + number * 1000
        events = {
            "impressions": [
                WeightedRecord(
                    0, LogRecord(0, at, b"", encode(impression(name, f"user-{number}", at, ranked_by=(1, 3))))
                )
            ],
            "clicks": [WeightedRecord(0, LogRecord(0, at, b"", encode(Click(name, "s", 1, at))))],
        }
        shown.add(LogUpdate(at, events))
    assert shown.loop.rows == shown.click_delays.delays == shown.loop._buckets == {}


def test_a_page_opened_in_the_middle_tells_the_same_times_as_one_that_saw_it_all():
    times = []
    for impressions_from in (0, 700):
        shown = State(Settings(buckets=buckets(1), wait_s=60, lateness_s=60), source_name="a log", clock=lambda: 0)
        shown.add(LogUpdate(NOW + 900_000, loop_of(900, impressions_from=impressions_from)))
        times.append(shown.loop.rows["b00"])
    assert [row[3] for row in times] == [3, 3]  # published to served: 2 s, and a second between two versions
    assert times[1][:6] == times[0][:6]
    assert 100 < times[1][6] < times[0][6]


def test_freshness_is_told_at_the_end_of_an_archive_where_time_stands_still():
    wall = [100.0]
    shown = State(Settings(buckets=buckets(1), wait_s=60), source_name="a log", clock=lambda: wall[0])
    made = loop_of(200)
    shown.add(LogUpdate(NOW + 199_000, made | {"impressions": []}))
    assert shown.loop.rows["b00"][6] == 0
    shown.add(LogUpdate(NOW + 199_000, {"impressions": made["impressions"]}, behind=True))
    wall[0] += 6
    shown.add(LogUpdate(NOW + 199_000, {}))
    assert shown.loop.rows["b00"][6] > 100
