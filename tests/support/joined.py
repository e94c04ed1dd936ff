"""What a join has written, and a join that runs in a thread of the test."""

import threading
import time
from collections import Counter
from contextlib import contextmanager

from kafka import KafkaConsumer, TopicPartition
from traffic import publish, traffic

from schemas.codec import decode
from schemas.records import SampleBatch
from streams.broker import open_broker
from streams.join import Commit
from streams.join.job.worker import JoinJob
from streams.settings import Bucket, Topics

BUCKETS = {name: Bucket(name, "c2ucb", 10, 12) for name in ("a", "b", "c")}


def events(lists, seed, *, old_s=3_600):
    """A minute of traffic, an hour old."""
    times = {"start_ms": int((time.time() - old_s) * 1000), "span_ms": 60_000}
    return traffic(lists, buckets=list(BUCKETS), **times, wait_ms=10_000, lateness_ms=10_000, seed=seed)


def load(settings, impressions, clicks):
    """Write both logs."""
    topics = Topics.of(settings)
    publish(settings.kafka, topics.impressions, impressions)
    publish(settings.kafka, topics.clicks, clicks)


@contextmanager
def joining(settings, start="earliest", **options):
    """Run a join until the block ends; an error of its thread is raised here."""
    job, errors = JoinJob(settings, open_broker(settings), start=start, **options), []

    def work():
        try:
            job.run()
        except BaseException as error:
            errors.append(error)
            job.stopping.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield job
    finally:
        job.stopping.set()
        thread.join(20)
        assert not thread.is_alive()
        if errors:
            raise errors[0]


class Reader:
    """Reads committed records of a topic, more at each call."""

    def __init__(self, settings, topic):
        self.consumer = KafkaConsumer(
            **settings.kafka_options(),
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=8 << 20,
        )
        self.places = [TopicPartition(topic, number) for number in self.consumer.partitions_for_topic(topic)]
        self.consumer.assign(self.places)
        self.records = []

    def read(self):
        """Read what there is now, and return all that was read so far."""
        ends = self.consumer.end_offsets(self.places)
        while any(self.consumer.position(place) < ends[place] for place in self.places):
            for records in self.consumer.poll(timeout_ms=100).values():
                self.records += records
        return self.records

    def close(self):
        self.consumer.close()


class Net(Reader):
    """The net of the samples topic."""

    def __init__(self, settings):
        super().__init__(settings, Topics.of(settings).samples)
        self.lists = Counter()
        self.corrections = 0

    def now(self):
        """Return, by list with its rows, how often it is learned in the net."""
        self.read()
        for record in self.records:
            batch = decode(record.value, SampleBatch)
            assert record.key == batch.bucket.encode()
            self.lists.update(lists_of(batch))
            self.corrections += int((batch.signs_array < 0).sum())
        self.records.clear()
        return {entry: count for entry, count in self.lists.items() if count}


def lists_of(batch):
    """Return the signed lists of a batch: (id, bucket, ((item, position, last click, reward, context), …))."""
    rows = list(
        zip(
            batch.items_array.tolist(),
            batch.positions_array.tolist(),
            batch.last_clicks_array.tolist(),
            batch.rewards_array.tolist(),
            [row.tobytes() for row in batch.contexts_array],
            strict=True,
        )
    )
    found, start = Counter(), 0
    for name, size, sign in zip(batch.impression_ids, batch.sizes, batch.signs_array.tolist(), strict=True):
        found[name, batch.bucket, tuple(rows[start : start + size])] += sign
        start += size
    return found


def lists_wanted(impressions, clicks):
    """Return what must be learned, once each, by an independent look at raw events of which none is too late."""
    shown = {event.record.impression_id: event.record for event in impressions}
    tapped = {}
    for event in clicks:
        tapped.setdefault(event.record.impression_id, set()).add(event.record.position)
    net = {}
    for name, record in shown.items():
        taps, last, rows = tapped.get(name, set()), 0, []
        for k in range(1, max([record.rendered, *taps]) + 1):
            context = record.contexts[40 * (k - 1) : 40 * k]
            rows.append((int(record.items_array[k - 1]), k, last, float(k in taps), context))
            last = k if k in taps else last
        net[name, record.bucket, tuple(rows)] = 1
    return net


def commits(settings):
    """Return the commit of every partition, as the broker has it."""
    topics, group = Topics.of(settings), f"{settings.topic_prefix}glimpse-join"
    consumer = KafkaConsumer(
        **settings.kafka_options(), group_id=group, enable_auto_commit=False, isolation_level="read_committed"
    )
    try:
        found = []
        for partition in sorted(consumer.partitions_for_topic(topics.impressions)):
            places = [TopicPartition(topic, partition) for topic in (topics.impressions, topics.clicks)]
            entries = [consumer.committed(place, metadata=True) for place in places]
            if all(entries):
                found.append(Commit.decode(*((entry.offset, entry.metadata) for entry in entries))[0])
        return found
    finally:
        consumer.close()
