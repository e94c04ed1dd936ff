"""What the page counts, against slow and obvious twins."""

import json

import numpy as np
import pytest
from shown import CLICKED_ONCE, DIM, K, batch, buckets, impression, snapshot, table

from learner import Samples
from schemas.codec import encode
from schemas.records import Click, DeadLetter
from streams.dashboard.click_delays import MOST, ClickDelays
from streams.dashboard.letters import Letters
from streams.dashboard.rates import CLICKED, CLICKS, LISTS, Rates
from streams.dashboard.recent import DECADES, PER_DECADE, quantile_s
from streams.dashboard.sections import positions
from streams.dashboard.snapshots_view import Snapshots
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.dashboard.timeline import STREAMS, Throughput, Timeline
from streams.events import EventReader
from streams.logs import LogRecord

NOW = 1_700_000_000_000


def entry(record, *, offset=0, at_ms=NOW, partition=0):
    return WeightedRecord(partition, LogRecord(offset, at_ms, None, encode(record)))


@pytest.mark.parametrize("grow", [False, True])
def test_a_timeline_is_the_sum_of_what_lies_in_its_window(grow):
    random = np.random.default_rng(1)
    timeline = Timeline(width_ms=1000, bins=20, fields=2, grow=grow)
    added = []
    for _ in range(60):
        many = int(random.integers(1, 9))
        times = random.integers(0, 90_000, many) + (0 if grow else len(added) * 500)
        columns, amounts = random.integers(0, 3, many), random.integers(-5, 9, (many, 2))
        added += zip(times.tolist(), columns.tolist(), amounts.tolist(), strict=True)
        timeline.add(times, columns, amounts)
    wanted = np.zeros_like(timeline.values)
    for time, column, amount in added:
        place = time // timeline.width_ms - timeline.start
        if 0 <= place < 20:
            wanted[place, column] += amount
    assert (timeline.values == wanted).all()
    if grow:
        assert timeline.values.sum() == sum(sum(amount) for _, _, amount in added)
    else:
        assert timeline.start == max(time for time, _, _ in added) // 1000 - 19


def counted(rates, window="all"):
    return rates.timelines[window].values.sum(axis=0)


def joined(batches):
    return [(each.entry.record.timestamp, each.new_lists) for each in batches]


def test_click_rates_are_those_of_the_net_lists():
    rates = Rates(buckets(2))
    first = batch("b00", [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 1, 0], [0] * 6], NOW - 60_000, ids=["i", "j", "k"])
    assert joined(rates.add([entry(first)], {}, now_ms=NOW)) == [(NOW, 3)]
    assert counted(rates)[0].tolist() == [3, 3, 2]
    correction = batch(
        "b00", [[0] * 6, [0, 1, 0, 0, 0, 0]], NOW - 60_000, ids=["k", "k"], signs=[-1, 1]
    )  # k was clicked after it had been closed
    assert joined(rates.add([entry(correction)], {}, now_ms=NOW)) == [(NOW, 0)]
    sums = counted(rates)
    assert (sums[0, LISTS], sums[0, CLICKS], sums[0, CLICKED]) == (3, 4, 3)
    assert sums[1].tolist() == [0, 0, 0]
    assert counted(rates, "30m")[0].tolist() == [3, 4, 3]


def test_a_correction_falls_into_the_bin_of_its_list():
    rates = Rates({})
    rates.add([entry(batch("x", [[0] * 6], NOW - 600_000))], {}, now_ms=NOW)
    rates.add([entry(batch("x", [[0] * 6, [1] + [0] * 5], NOW - 600_000, signs=[-1, 1]))], {}, now_ms=NOW)
    [filled] = np.flatnonzero(rates.timelines["30m"].values.any(axis=(1, 2)))
    assert rates.timelines["30m"].values[filled, 0].tolist() == [1, 1, 1]


def test_positions_are_compared_with_examination_times_attraction():
    known = buckets(1)
    random = np.random.default_rng(5)
    contexts = random.uniform(0, 0.5, (40, K, DIM)).astype("f4")
    clicks = (random.random((40, K)) < 0.3).astype(float)
    model = known["b00"].model()
    model.learn(Samples.from_clicks(contexts, clicks))
    newest = {"b00": snapshot(known["b00"], offset=1, at_ms=NOW, model=model)}
    rates = Rates(known)
    rates.add([entry(batch("b00", clicks, NOW, contexts=contexts))], newest, now_ms=NOW)
    expected = np.zeros(K)
    for row, clicked in zip(contexts, clicks, strict=True):
        last = 0
        for k in range(K):
            attraction = sum(float(row[k, j]) * model.theta[j] for j in range(DIM))
            expected[k] += table()[k, last] * min(max(attraction, 0), 1)
            last = k + 1 if clicked[k] else last
    found = positions(rates.cells["b00"])
    assert found["rows"] == [40] * K
    assert found["clicks"] == clicks.sum(axis=0).astype(int).tolist()
    np.testing.assert_allclose(found["expected"], expected, rtol=1e-3)


def test_without_a_model_the_table_alone_says_how_clicks_fall_off():
    known = buckets(1)
    rates = Rates(known)
    rates.add([entry(batch("b00", [[0] * 5 + [1], [1] + [0] * 5], NOW))], {}, now_ms=NOW)
    found = positions(rates.cells["b00"])
    w = np.array([[table()[k, 0] for k in range(K)], [0.9, *(table()[k, 1] for k in range(1, K))]]).sum(axis=0)
    assert found["expected"] is None
    np.testing.assert_allclose(found["alone"], w * 2 / w.sum(), rtol=1e-3)


def test_the_join_delay_leaves_corrections_out():
    rates = Rates({})
    late = batch("x", [[0] * 6, [1] + [0] * 5], NOW - 900_000, ids=["a", "a"], signs=[-1, 1])
    rates.add([entry(batch("x", [[0] * 6] * 3, NOW - 60_000)), entry(late)], {}, now_ms=NOW)
    histogram = rates.join_delays["x"].total()
    assert histogram.sum() == 3
    assert quantile_s(histogram, 0.5) == pytest.approx(60, rel=0.04)


def test_a_list_that_stands_for_others_counts_for_them_and_no_count_is_below_none():
    rates = Rates({})
    one = batch("x", [[1] + [0] * 5, [0] * 6], NOW - 60_000)
    assert joined(rates.add([entry(one)._replace(weight=2.5)], {}, now_ms=NOW)) == [(NOW, 5)]
    assert counted(rates)[0].tolist() == [5, 2.5, 2.5]
    assert positions(rates.cells["x"])["rows"] == [5] * K
    assert rates.join_delays["x"].total().sum() == 5


def test_what_is_taken_back_leaves_where_it_had_come():
    rates = Rates(buckets(1))
    rates.add([entry(batch("b00", [[1] + [0] * 5] * 100, NOW - 600_000))], {}, now_ms=NOW)
    later = NOW + 3 * 3_600_000
    now = entry(batch("b00", [[0] * 6] * 10, later - 600_000), at_ms=later)
    back = entry(batch("b00", [[1] + [0] * 5] * 100, NOW - 600_000, signs=[-1] * 100), at_ms=later)  # unlearned
    assert joined(rates.add([now, back], {}, now_ms=later)) == [(later, 10), (later, 0)]  # nothing was joined by it
    found = positions(rates.cells["b00"])
    assert (found["rows"], found["clicks"]) == ([10] * K, [0] * K)
    assert rates.join_delays["b00"].total().sum() == 10
    rates.add([entry(batch("b00", [[0] * 6] * 10, later - 600_000, signs=[-1] * 10), at_ms=later)], {}, now_ms=later)
    assert positions(rates.cells["b00"])["rows"] == []


def test_a_list_of_the_far_future_does_not_push_out_the_others():
    rates = Rates({})
    rates.add([entry(batch("x", [[0] * 6] * 2, [NOW - 1000, 2**62]))], {}, now_ms=NOW)
    assert positions(rates.cells["x"])["rows"] == [1] * K


@pytest.mark.parametrize("known", [True, False], ids=["with its table", "without"])
def test_without_the_table_of_an_algorithm_that_has_one_nothing_is_expected(known):
    bucket = buckets(1)["b00"]
    settings = {"b00": bucket} if known else {}
    rates = Rates(settings)
    newest = {"b00": snapshot(bucket, offset=1, at_ms=NOW)}
    rates.add([entry(batch("b00", CLICKED_ONCE, NOW))], newest, now_ms=NOW)
    found = positions(rates.cells["b00"])
    assert (found["expected"] is not None) is known
    assert (found["alone"] is not None) is known


@pytest.mark.parametrize("delay_s", [0.3, 7, 600.5, 40_000])
def test_quantiles_of_delays_are_near(delay_s):
    rates = Rates({})
    rates.add([entry(batch("x", [[0] * 6] * 50, NOW - round(delay_s * 1000)))], {}, now_ms=NOW)
    for share in (0.5, 0.95, 0.99):
        assert quantile_s(rates.join_delays["x"].total(), share) == pytest.approx(delay_s, rel=0.06)


def test_samples_that_cannot_be_read_are_counted_and_passed_over():
    rates = Rates({})
    good = entry(batch("x", [[1] + [0] * 5], NOW))
    rates.add(
        [
            WeightedRecord(0, LogRecord(1, NOW, None, b"\xc3\x01nonsense")),
            WeightedRecord(0, LogRecord(2, NOW, None, None)),
            good,
        ],
        {},
        now_ms=NOW,
    )
    assert rates.unreadable == 2
    assert counted(rates)[0].tolist() == [1, 1, 1]


def test_clicks_are_timed_whichever_comes_first():
    delays = ClickDelays(horizon_s=1200)
    delays.add([impression("i", "b", NOW)], [Click("j", "s", 1, NOW + 5_000)], now_ms=NOW)
    delays.add([impression("j", "b", NOW)], [Click("i", "s", 2, NOW + 5_000)], now_ms=NOW)
    histogram = delays.delays["b"].total()
    assert histogram.sum() == 2
    assert quantile_s(histogram, 0.5) == pytest.approx(5, rel=0.15)


def test_too_many_lists_are_thinned_without_favouring_fast_clicks():
    delays = ClickDelays(horizon_s=1200)
    names = [f"i{number}" for number in range(3 * MOST)]
    delays.add([impression(name, "b", NOW) for name in names], [], now_ms=NOW)
    delays.add([], [Click(name, "s", 1, NOW + 1_000) for name in names], now_ms=NOW + 1_000)
    fast = delays.delays["b"].total().sum()
    delays.add([], [Click(name, "s", 2, NOW + 600_000) for name in names], now_ms=NOW + 600_000)
    slow = delays.delays["b"].total().sum() - fast
    assert fast == slow
    assert fast == pytest.approx(3 * MOST * delays.followed.share, rel=0.1)
    delays.add([], [], now_ms=NOW + 1_300_000)
    delays.add([], [Click(names[0], "s", 1, NOW)], now_ms=NOW + 1_300_000)
    assert delays.delays["b"].total().shape == (DECADES * PER_DECADE,)
    assert delays.delays["b"].total().sum() == fast + slow  # forgotten after the horizon
    for _ in range(10):
        delays.add([], [], now_ms=NOW + 1_300_000)
    assert delays.followed.share == 1  # and there is room for all again


def test_refusals_are_gathered_by_reason_and_can_be_opened():
    letters = Letters(EventReader())
    click = encode(Click("i", "s", 14, NOW, float("nan")))
    bad = [
        DeadLetter("clicks", 0, 5, NOW, b"s", click, "position 14 is beyond the list of 12"),
        DeadLetter("clicks", 1, 9, NOW, None, b"\x00\xff{", "position 99 is beyond the list of 12"),
        DeadLetter("impressions", 2, 1, NOW, b"\xff", None, "unknown bucket 'a'"),
    ]
    letters.add([entry(letter, offset=number, at_ms=NOW + number) for number, letter in enumerate(bad)])
    letters.add([WeightedRecord(0, LogRecord(3, NOW, None, b"not one itself"))])
    [beyond, unknown, none] = letters.reasons.values()
    assert (beyond.count, beyond.topic, beyond.last_ms) == (2, "clicks", NOW + 1)
    assert (unknown.text, none.topic) == ("unknown bucket …", "dead-letters")
    newest, older = letters.of_reason(beyond.number)
    assert (newest["place"], older["place"]) == ("clicks/1@9", "clicks/0@5")
    opened = letters.open(older["id"])
    assert opened["hex"] == click.hex()
    assert opened["decoded"]["kind"] == "Click"
    assert opened["decoded"]["fields"]["position"] == 14
    assert opened["decoded"]["fields"]["reward"] == "nan"
    assert "error" in letters.open(newest["id"])["decoded"]
    for name in ("0-0", "0-1", "0-2", "0-3"):
        json.dumps(letters.open(name), allow_nan=False)
    assert letters.open("7-7") is None


def test_a_rare_refusal_can_be_opened_behind_frequent_ones():
    letters = Letters(EventReader())
    letters.add([entry(DeadLetter("impressions", 0, 1, NOW, None, b"abc", "unknown bucket 'a'"), offset=0)])
    many = [DeadLetter("clicks", 0, n, NOW, None, bytes(100_000), f"position {n} is beyond") for n in range(1000)]
    letters.add([entry(letter, offset=n + 1, at_ms=NOW + n) for n, letter in enumerate(many)])
    rare, frequent = sorted(letters.reasons.values(), key=lambda reason: reason.count)
    assert [one["reason"] for one in letters.of_reason(rare.number)] == ["unknown bucket 'a'"]
    assert letters.open("0-0")["hex"] == b"abc".hex()
    assert [one["id"] for one in letters.of_reason(frequent.number)] == [f"0-{n}" for n in range(1000, 980, -1)]
    assert letters.open("0-5") is None


def test_a_topic_made_again_takes_no_room_twice():
    letters = Letters(EventReader())
    for _ in range(40):
        letters.add([entry(DeadLetter("clicks", 0, 5, NOW, None, bytes(900_000), "too large"), offset=7)])
    letters.add([entry(DeadLetter("clicks", 0, 5, NOW, None, b"x", "small"), offset=8)])
    assert [len(letters.of_reason(reason.number)) for reason in letters.reasons.values()] == [1, 1]


def test_refusals_stay_within_their_memory():
    letters = Letters(EventReader())
    large = DeadLetter("clicks", 0, 5, NOW, None, bytes(900_000), "too large")
    letters.add([entry(large, offset=number) for number in range(40)])
    assert letters.reasons["clicks", "too large"].count == 40
    assert 10 <= len(letters.of_reason(1)) <= 18
    letters.add([entry(DeadLetter("t", 0, 0, NOW, None, b"", "x" * n), offset=100 + n) for n in range(1, 300)])
    assert len(letters.reasons) == 200


def test_theta_moves_from_snapshot_to_snapshot():
    [bucket] = buckets(1).values()
    first, model = bucket.model(), bucket.model()
    model.learn(Samples.from_clicks(np.full((5, K, DIM), 0.5), np.ones((5, K))))
    snapshots = Snapshots()
    records = [
        snapshot(bucket, offset=1, at_ms=NOW, model=first),
        snapshot(bucket, offset=2, at_ms=NOW + 1000, model=model),
        snapshot(bucket, offset=1, at_ms=NOW, model=first),  # read again
    ]
    news = snapshots.add([entry(record, offset=n, at_ms=NOW + n) for n, record in enumerate(records)])
    assert [(one.version, at) for one, at in news] == [((1, 1), NOW), ((1, 2), NOW + 1)]
    assert [move.moved for move in snapshots.moves[bucket.name]] == [
        None,
        pytest.approx(float(np.linalg.norm(model.theta - first.theta))),
    ]
    snapshots.add([WeightedRecord(0, LogRecord(9, NOW, None, b"?"))])
    assert snapshots.unreadable == 1


def test_throughput_is_what_logs_grew_by():
    throughput = Throughput()
    past = [(NOW - 120_000, {"clicks": 100}), (NOW - 60_000, {"clicks": 160}), (NOW, {"clicks": 220})]
    letters = [
        entry(DeadLetter("clicks", 0, n, NOW, None, b"", "x"), offset=2 * n, at_ms=NOW - 70_000) for n in range(9)
    ]
    throughput.add(
        LogUpdate(NOW, {"dead-letters": letters}, ends={"clicks": {0: 200, 1: 20}}, past=past), lists=[(NOW, 7)]
    )
    ends = {"clicks": {0: 240, 1: 4}, "dead-letters": {0: 24}}  # partition 1 of the clicks was made again
    throughput.add(LogUpdate(NOW + 2000, {"dead-letters": letters[:4]}, ends), lists=[(NOW, 4), (NOW + 900, 6)])
    assert throughput.rates["clicks"] == 20.0
    assert throughput.rates["dead-letters"] == 2.0  # records, not offsets, which also number markers
    assert throughput.rates["lists"] == 5.0
    clicks = throughput.timelines["30m"].values[:, STREAMS.index("clicks"), 0]
    assert clicks.sum() == 120 + 40
    assert clicks.max() <= 40 + 15
    sums = throughput.timelines["30m"].values.sum(axis=0)[:, 0]
    assert sums[STREAMS.index("lists")] == 17
    assert sums[STREAMS.index("dead-letters")] == 13
