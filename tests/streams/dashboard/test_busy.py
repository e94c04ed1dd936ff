"""What the page reads of a busy log on a real broker: an even share, which stands for all."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shown import CLICKED_ONCE, K, Writer, batch, buckets, impression, now_ms, snapshot

from schemas.records import Click, DeadLetter
from streams.dashboard.job import kafka_source
from streams.dashboard.job.feed import Feed, State
from streams.dashboard.job.kafka_source import KafkaFollower
from streams.dashboard.rates import CLICKS, LISTS


class Clock:
    """A second passes when it is told to."""

    def __init__(self) -> None:
        self.ms = now_ms()

    def __call__(self) -> float:
        return self.ms / 1000


def follow(source, state):
    while True:
        look = source.poll()
        state.add(look)
        if not look.behind:
            return look


def counts(state, field):
    return state.rates.timelines["all"].values.sum(axis=0)[:, field]


def test_more_samples_than_can_be_read_are_an_even_share_of_every_bucket(settings_for):
    settings, clock = settings_for(buckets=buckets(3), partitions=3, wait_s=5, lateness_s=5), Clock()
    writer, source = Writer(settings), KafkaFollower(settings, clock=clock, samples_per_s=20)
    state = State(settings, source_name="busy", clock=clock)
    records, letters, shares = [80, 10, 20], 0, []
    for second in range(12):
        for number, many in enumerate(records):
            for _ in range(many):
                writer.lists(f"b{number:02}", CLICKED_ONCE, clock.ms - 6000, partition=number)
        for _ in range(40):  # refused records and snapshots are not thinned
            writer.put(
                "dead_letters", DeadLetter("clicks", 0, letters, clock.ms, None, b"", "x"), clock.ms, letters % 3
            )
            letters += 1
        bucket = settings.buckets["b00"]
        writer.put("parameters", snapshot(bucket, offset=second + 1, at_ms=clock.ms), clock.ms)
        writer.done()
        shares.append(follow(source, state).share)
        clock.ms += 1000
    read = 12 * np.array(records) * len(CLICKED_ONCE)
    np.testing.assert_allclose(counts(state, LISTS), read, rtol=0.1)
    np.testing.assert_allclose(counts(state, CLICKS), read, rtol=0.1)
    assert state.throughput.rates["lists"] == pytest.approx(sum(records) * len(CLICKED_ONCE), rel=0.1)
    assert shares[-1] == pytest.approx(20 / 110, rel=0.5)  # of late, the first look too
    assert state.letters.total == letters
    assert state.snapshots.newest["b00"].version == (1, 12)
    assert state.snapshots.published["b00"] == 12

    # what was never counted can be taken back without a count below none
    for _ in range(400):
        writer.put("samples", batch("b01", CLICKED_ONCE, clock.ms - 6000, signs=[-1] * 4), clock.ms, 1)
    writer.done()
    follow(source, state)
    news = json.loads(Feed("all", "b01").message(state))
    assert min(value for _, values in news["ctr"]["bins"] for value in values) >= 0
    assert min(news["positions"]["is"]["rows"], default=0) >= 0
    source.close()


def test_a_long_history_is_read_in_pieces_that_stand_for_all_of_it(settings_for, monkeypatch):
    monkeypatch.setattr(kafka_source, "HISTORY_SAMPLES", 400)
    settings, clock = settings_for(buckets=buckets(2), partitions=2, wait_s=5, lateness_s=5), Clock()
    writer = Writer(settings)
    for back in range(3000):
        at_ms = clock.ms - 5000 - back * 1000
        writer.lists("b00", CLICKED_ONCE, at_ms)
        if back % 4 == 0:
            writer.lists("b01", [[0] * K], at_ms, partition=1)
    writer.done()
    source, state = KafkaFollower(settings, clock=clock), State(settings, source_name="long", clock=clock)
    assert follow(source, state).history_share == pytest.approx(400 / 3750, rel=0.1)
    lists = counts(state, LISTS)
    assert lists[0] == pytest.approx(12_000, rel=0.15)
    assert lists[1] == pytest.approx(750, rel=0.3)
    filled = (state.rates.timelines["2h"].values[-50:-1, 0, LISTS] > 0).mean()
    assert filled > 0.9  # of the minutes
    source.close()


@pytest.mark.parametrize("lists_per_s, seconds", [(20, 20), (100, 45)], ids=["calm", "busy"])
def test_freshness_is_right_when_not_every_list_can_be_read(settings_for, lists_per_s, seconds):
    """One click in five lists, joined after 5 s, learned and published at once, and served after half a second."""
    settings, clock = settings_for(buckets=buckets(1), partitions=1, wait_s=5, lateness_s=5), Clock()
    writer, source = Writer(settings), KafkaFollower(settings, clock=clock, events_per_s=50)
    state, bucket, gaps = State(settings, source_name="busy", clock=clock), settings.buckets["b00"], 0
    for second in range(seconds):
        published = clock.ms + 100
        for number in range(lists_per_s):
            at_ms = clock.ms + number * 1000 // lists_per_s
            version = max(0, second - 5) if at_ms >= published + 500 else max(0, second - 6)
            writer.put("impressions", impression(f"i{second}-{number}", "b00", at_ms, ranked_by=(1, version)), at_ms)
            if number % 5 == 0:
                writer.put("clicks", Click(f"i{second}-{number}", "s", 1, at_ms), at_ms)
        if second >= 5:
            names = [f"i{second - 5}-{number}" for number in range(0, lists_per_s, 5)]
            joined = batch("b00", [[1] + [0] * (K - 1)] * len(names), clock.ms - 5000, ids=names)
            writer.put("samples", joined, clock.ms)
        if second == 0 or second >= 5:
            writer.put("parameters", snapshot(bucket, offset=max(0, second - 4), at_ms=clock.ms), published)
        writer.done()
        clock.ms += 1000
        gaps += follow(source, state).gap is not None
    assert (gaps > 10) == (lists_per_s == 100)
    joined, learned, published, served, in_all, _, clicks, *_ = state.loop.rows["b00"]
    assert joined == pytest.approx(4.6, abs=0.5)
    assert (learned, published) == (0, 0.1)
    assert served == pytest.approx(1.6, abs=0.2)  # its version is used in the second after it was published
    assert in_all == pytest.approx(6.3, abs=0.5)
    assert clicks > 20
    source.close()
