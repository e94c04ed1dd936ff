"""The same two logs on a real broker, read in ten orders and batch sizes with crashes in between: the same net."""

from random import Random

import pytest
from joined import BUCKETS, events, lists_of, lists_wanted, load
from kafka import KafkaConsumer, TopicPartition

from streams.broker import create_topics
from streams.events import Acceptance, EventReader
from streams.join import Commit, SessionJoin
from streams.settings import Settings, Topics

HORIZON_MS = 20_000
ACCEPT = Acceptance(BUCKETS, future_ms=5_000)


@pytest.fixture(scope="module")
def logs(kafka):
    """One partition of each log with some traffic, and what must come of it."""
    settings = Settings(kafka=kafka, buckets=BUCKETS, topic_prefix="orders-", partitions=1, timestamps="CreateTime")
    create_topics(settings)
    impressions, clicks = events(2_000, seed=8)
    load(settings, impressions, clicks)
    return settings, lists_wanted(impressions, clicks)


class Polls:
    """Polls both logs, whichever it likes and as much as it likes, and forgets all but its last commit at times."""

    def __init__(self, settings, rng):
        topics = Topics.of(settings)
        self.places = {name: TopicPartition(getattr(topics, name), 0) for name in ("impressions", "clicks")}
        self.consumers = {name: KafkaConsumer(**settings.kafka_options()) for name in self.places}
        self.ends = {}
        for name, consumer in self.consumers.items():
            consumer.assign([self.places[name]])
            self.ends |= consumer.end_offsets([self.places[name]])
        self.rng, self.net, self.commit, self.known = rng, {}, Commit.beginning(), {}
        self.restart()

    def restart(self):
        wait_ms = self.rng.randrange(0, HORIZON_MS)
        self.resume = Commit.decode(*self.commit.encode())[0]
        times = {"wait_ms": wait_ms, "lateness_ms": HORIZON_MS - wait_ms}
        self.join = SessionJoin(ACCEPT, **times, resume=self.resume, known=self.known, reader=EventReader())
        for name, consumer in self.consumers.items():
            consumer.seek(self.places[name], getattr(self.resume, name).restart.offset)

    def at(self, name):
        return self.consumers[name].position(self.places[name])

    def poll(self, name):
        most = self.rng.choice([1, 20, 300])
        if self.join.rebuilding:
            most = min(most, getattr(self.resume, name).processed - self.at(name))
        if most > 0 and self.at(name) < self.ends[self.places[name]]:
            records = self.consumers[name].poll(timeout_ms=1000, max_records=most).get(self.places[name], [])
            getattr(self.join, f"add_{name}")(records, self.at(name))

    def checkpoint(self):
        if self.join.rebuilding:
            return
        last = max(self.join.impressions.clock, self.join.clicks.clock)
        checkpoint = self.join.checkpoint(last + self.rng.randrange(-HORIZON_MS, HORIZON_MS))
        for batch in checkpoint.samples:
            for entry, count in lists_of(batch).items():
                self.net[entry] = self.net.get(entry, 0) + count
        assert checkpoint.commit.ledger.balanced
        self.commit = checkpoint.commit
        self.known |= {rules.hash: rules.rules for rules in checkpoint.rules}

    def at_end(self):
        return all(self.at(name) >= self.ends[place] for name, place in self.places.items())

    def close(self):
        for consumer in self.consumers.values():
            consumer.close()


@pytest.mark.parametrize("seed", range(10))
def test_any_poll_order_gives_the_same_net(logs, seed):
    settings, wanted = logs
    rng = Random(seed)
    polls, lean = Polls(settings, rng), rng.choice([0.1, 0.5, 0.9])
    try:
        restarts = 3
        while not polls.at_end() or polls.join.rebuilding:
            polls.poll("impressions" if rng.random() < lean else "clicks")
            if rng.random() < 0.3:
                polls.checkpoint()
            if restarts and rng.random() < 0.02:
                restarts -= 1
                polls.restart()
        polls.join.idle(impressions_ms=1 << 45, clicks_ms=1 << 45)
        polls.checkpoint()
    finally:
        polls.close()
    assert {entry: count for entry, count in polls.net.items() if count} == wanted
