"""Burrow's rules on made-up histories: the same numbers, moved differently, are judged differently."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.lag import Window
from streams.lag.report import GroupLag, LagReport, partition_lag, rate
from streams.lag.verdict import Facts, OffsetAt, OpenTransaction, Verdict, behind_since, judge, offset_at

NOW = 100_000
WINDOW = Window(span_s=30, commits=10)


def facts(positions, *, ends=None, every_ms=3000, last_ms=NOW, **changes) -> Facts:
    """A partition with these commits, one every 3 s; its log grows by 100 offsets a second unless told otherwise."""
    count = len(positions)
    commits = [OffsetAt(last_ms - every_ms * (count - 1 - index), offset) for index, offset in enumerate(positions)]
    ends = ends or [OffsetAt(at_ms, at_ms // 10) for at_ms in range(40_000, NOW + 1, 3000)]
    position = positions[-1] if positions else None
    end = ends[-1].offset
    known = {
        "start": 0,
        "end": end,
        "high": end,
        "committed": position,
        "position": position,
        "unread": max(0, end - (position or 0)),
    }
    return Facts("t", 0, commits=commits, ends=ends, **known | changes)


STILL = [OffsetAt(40_000, 9000), OffsetAt(NOW, 9000)]  # a log that did not grow
CASES = {
    "caught up": (facts([9000, 9500, 10_000]), Verdict.OK, "caught up"),
    "keeps pace, one second behind": (facts([9900 - 300 * n for n in range(11, -1, -1)]), Verdict.OK, "it moves"),
    "moves and gains": (facts([1000 + 700 * n for n in range(12)]), Verdict.OK, "it moves"),
    "moves and falls behind": (
        facts([5000 + 100 * n for n in range(12)]),
        Verdict.WARN,
        "falls behind: lag grew from 1900 to 3900",
    ),
    "fell behind, but not with every commit": (
        facts([5000 + 100 * n + 500 * (n > 6) for n in range(12)]),
        Verdict.OK,
        "it moves",
    ),
    "commits without moving": (facts([5000] * 12), Verdict.STALL, "commits, but stays at 5000"),
    "commits without moving, but was caught up not long ago": (
        facts([9000] * 12, ends=[OffsetAt(40_000, 9000), OffsetAt(90_000, 9000), OffsetAt(NOW, 10_000)]),
        Verdict.OK,
        "was caught up 10 s ago",
    ),
    "no commit any more": (
        facts([1000, 2000, 3000], last_ms=60_000),
        Verdict.STOP,
        "no commit for 40 s, and 7000 records wait",
    ),
    "no commit any more, but nothing to do": (facts([9000], ends=STILL, last_ms=40_000), Verdict.OK, "caught up"),
    "commits from before anything was seen": (facts([], position=5, unread=95), Verdict.STOP, "no commit in the last"),
    "idle for long, then work came": (
        facts([9000], last_ms=10_000, ends=[OffsetAt(40_000, 9000), OffsetAt(98_000, 9000), OffsetAt(NOW, 9100)]),
        Verdict.OK,
        "was caught up 2.0 s ago",
    ),
    "went back": (facts([8000, 8300, 200, 500]), Verdict.REWIND, "went back from 8300 to 200 3.0 s ago"),
    "went back at once": (
        facts([9000, 100], every_ms=40, last_ms=NOW - 30),
        Verdict.REWIND,
        "went back from 9000 to 100",
    ),
    "went back, and caught up since": (facts([8000, 200, 10_000]), Verdict.OK, "caught up"),
    "went back long ago": (facts([9000] + [100 + 900 * n for n in range(11)]), Verdict.OK, "it moves"),
    "never committed": (facts([]), Verdict.STOP, "never committed, and 10000 records wait"),
    "never committed, on a log just begun": (
        facts([], ends=[OffsetAt(40_000, 0), OffsetAt(99_000, 0), OffsetAt(NOW, 50)]),
        Verdict.OK,
        "never committed",
    ),
    "never committed, on an empty log": (facts([], ends=[OffsetAt(NOW, 0)]), Verdict.OK, "nothing to read yet"),
    "beyond the end": (facts([500], ends=[OffsetAt(NOW, 20)]), Verdict.REWIND, "stands at 500, but the log ends at 20"),
    "behind an open transaction": (facts([10_000], high=10_100), Verdict.OK, "caught up"),
    "of another log": (facts([20], other_log=True), Verdict.REWIND, "the topic was made again"),
    "commits every 10 s and falls behind": (
        facts([5000 + 300 * n for n in range(6)], every_ms=10_000),
        Verdict.WARN,
        "falls behind: lag grew from ",
    ),
    "commits every 20 s and keeps pace": (
        facts([3900 + 2000 * n for n in range(4)], every_ms=20_000, last_ms=NOW - 1000),
        Verdict.OK,
        "it moves",
    ),
    "has just begun to commit every 20 s": (
        facts([5900, 7900], every_ms=20_000, last_ms=NOW - 19_000),
        Verdict.OK,
        "it moves",
    ),
    "committed every 10 s, and no more": (
        facts([1000, 2000, 3000, 4000], every_ms=10_000, last_ms=NOW - 35_000),
        Verdict.STOP,
        "no commit for 35 s",
    ),
    "committed every hour, and not for some minutes though there is work": (
        facts(
            [9000] * 5,
            every_ms=3_600_000,
            last_ms=NOW - 200_000,
            ends=[OffsetAt(NOW - 170_000, 9000), OffsetAt(NOW, 9500)],
        ),
        Verdict.STOP,
        "no commit for 3 min",
    ),
    "committed once": (facts([5000], last_ms=NOW - 5000), Verdict.OK, "it committed 5.0 s ago"),
    "one record": (facts([9000, 9999], last_ms=NOW - 500), Verdict.OK, "1 record waits, the first for 0.0 s, and it"),
    "a marker behind each commit": (
        facts([299 + 300 * n for n in range(12)], ends=[OffsetAt(67_000 + 3000 * n, 300 + 300 * n) for n in range(12)]),
        Verdict.OK,
        "",
    ),
}


@pytest.mark.parametrize("known, verdict, words", CASES.values(), ids=CASES)
def test_the_way_a_group_moves_decides(known, verdict, words):
    found = judge(known, now_ms=NOW, window=WINDOW)
    assert found[0] is verdict, found
    assert words in found[1]


def test_each_bad_verdict_ends_when_the_group_has_caught_up():
    for known, _, _ in CASES.values():
        if not known.other_log and known.position is not None:
            done = replace(known, position=known.end, committed=known.end, unread=0)
            assert judge(done, now_ms=NOW, window=WINDOW)[0] is Verdict.OK


def test_numbers_beside_the_verdict():
    known = facts([1000 + 700 * n for n in range(12)], unread_ms=NOW - 13_000, needed_ms=NOW - 60_000, retention_s=3600)
    found = partition_lag(known, now_ms=NOW, window=WINDOW)
    assert (found.lag, found.lag_s) == (1300, 13.0)
    assert found.rate_in == pytest.approx(100, rel=0.1)
    assert found.rate_out == pytest.approx(700 / 3, rel=0.1)
    assert found.catch_up_s == pytest.approx(1300 / (700 / 3 - 100), rel=0.2)
    assert found.retention_left_s == 3540
    lost = partition_lag(replace(known, start=9000, unread=1000), now_ms=NOW, window=WINDOW)
    assert (lost.lost, lost.verdict) == (300, Verdict.WARN)
    assert lost.reason.startswith("300 offsets were deleted before they were read; ")


@pytest.mark.parametrize("every_s", [1, 7, 20, 25])
@pytest.mark.parametrize("ago_s", [0, 5])
def test_the_rate_of_a_group_that_keeps_pace_is_that_of_its_log(every_s, ago_s):
    last = NOW - min(ago_s, every_s) * 1000
    commits = [
        OffsetAt(last - n * every_s * 1000, (last - n * every_s * 1000) // 10) for n in range(60 // every_s, -1, -1)
    ]
    assert rate(commits, NOW, WINDOW) == pytest.approx(100)


def test_the_rate_of_a_group_that_stopped_falls():
    commits = [OffsetAt(NOW - 20_000 - n * 1000, (NOW - 20_000 - n * 1000) // 10) for n in range(30, -1, -1)]
    assert rate(commits, NOW, WINDOW) == pytest.approx(100 / 3, rel=0.05)


def test_a_marker_that_was_deleted_is_no_loss_and_an_event_that_a_restart_needs_is_one():
    caught_up = facts([9000], ends=STILL, unread=0)
    after_marker = partition_lag(replace(caught_up, start=9001, end=9001, high=9001), now_ms=NOW, window=WINDOW)
    assert (after_marker.lost, after_marker.verdict) == (0, Verdict.OK)
    needs = partition_lag(replace(caught_up, committed=20, start=600), now_ms=NOW, window=WINDOW)
    assert (needs.lost, needs.verdict) == (0, Verdict.WARN)
    assert needs.reason == "a restart needs offset 20, but the log begins at 600 by now; caught up"


def test_what_waits_grows_older_when_time_stamps_stand_still():
    known = facts(
        [9000], ends=[OffsetAt(40_000, 9000), OffsetAt(60_000, 9001), OffsetAt(NOW, 9001)], unread_ms=500, clock_ms=500
    )
    assert partition_lag(known, now_ms=NOW, window=WINDOW).lag_s == 60.0


def test_time_lag_is_interpolated_when_the_record_cannot_be_read():
    ends = [OffsetAt(50_000, 0), OffsetAt(60_000, 1000), OffsetAt(NOW, 1000)]
    known = facts([250], ends=ends)
    assert partition_lag(known, now_ms=NOW, window=WINDOW).lag_s == 47.5
    older = facts([250], ends=[OffsetAt(60_000, 1000), OffsetAt(NOW, 1000)])
    assert partition_lag(older, now_ms=NOW, window=WINDOW).lag_s is None


def test_a_group_has_the_verdict_of_its_worst_partition_and_the_report_that_of_its_worst_group():
    good, bad = (
        partition_lag(CASES[name][0], now_ms=NOW, window=WINDOW) for name in ("caught up", "no commit any more")
    )
    report = LagReport(NOW, (GroupLag("a", "a", 1, (good, good)), GroupLag("b", "b", None, (good, bad, good))))
    assert [group.verdict for group in report.groups] == [Verdict.OK, Verdict.STOP]
    assert report.verdict is Verdict.STOP
    assert report.groups[0].reason == "caught up"
    assert report.groups[1].reason == f"t[0] {bad.reason} (1 of 3 partitions)"
    held = replace(good, transaction=OpenTransaction(3.5, "w", 2))
    plain = json.loads(json.dumps(LagReport(NOW, (GroupLag("a", "a", 1, (held,)),)).to_dict()))
    assert plain["groups"][0]["partitions"][0]["transaction"] == {"age_s": 3.5, "writer": "w", "offsets": 2}
    assert plain["groups"][0]["verdict"] == plain["groups"][0]["partitions"][0]["verdict"] == "OK"


def test_a_window_must_hold_something():
    with pytest.raises(ValueError, match="a span above 0 s and at least 3 commits"):
        Window(span_s=0)


marks = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20, unique_by=lambda m: m[0]
)


@given(marks, st.integers(0, 10**6), st.integers(0, 10**6))
def test_interpolation_agrees_with_a_slow_search(pairs, at_ms, position):
    times, offsets = zip(*sorted(pairs), strict=True)
    known = [OffsetAt(*pair) for pair in zip(times, sorted(offsets), strict=True)]
    found = offset_at(known, at_ms)
    assert known[0].offset <= found <= known[-1].offset
    assert offset_at(known, known[0].at_ms) == known[0].offset
    since = behind_since(known, position)
    assert known[0].at_ms <= since <= known[-1].at_ms
    if known[0].offset <= position < known[-1].offset:
        assert offset_at(known, since) == pytest.approx(position)


@given(st.lists(st.tuples(st.integers(0, NOW), st.integers(0, 10**6)), max_size=30), st.integers(0, 10**6))
def test_any_history_gets_a_verdict_and_sane_numbers(pairs, end):
    commits = [OffsetAt(*pair) for pair in sorted(pairs)]
    position = commits[-1].offset if commits else None
    known = facts(
        [], ends=[OffsetAt(0, 0), OffsetAt(NOW, end)], position=position, unread=max(0, end - (position or 0))
    )
    found = partition_lag(replace(known, commits=commits), now_ms=NOW, window=WINDOW)
    assert found.reason
    assert found.lag >= 0
    assert found.rate_out is None or found.rate_out >= 0
    assert found.catch_up_s is None or found.catch_up_s >= 0
    assert rate(known.ends, NOW, WINDOW) >= 0
