"""Snapshots through real Kafka and Redis: newest wins, chunks, open transactions, compare and set."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import redis
from kafka import KafkaProducer
from owned import feed, owner_of
from sample_batches import SampleWriter, make_batch, pack

from learner import Samples
from schemas.codec import encode
from schemas.records import BucketStamp, Progress
from streams.broker import BrokerPort
from streams.learn.job.store import Store
from streams.logs import LogRecord, SourceAway
from streams.parameters import ConfigChanged, Hopeless, SnapshotCorrupt, SnapshotMissing, restore_model, take_snapshot
from streams.parameters.job import KafkaParameters, RedisParameters
from streams.rank.job import Ranker
from streams.settings import Bucket, Settings, Topics

BUCKET = Bucket("main", "c2ucb", dim=3, positions=4)
CANDIDATES = np.random.default_rng(1).uniform(-0.5, 0.5, (50, 3))


def snapshot_at(offset, *, epoch=1, lists=10):
    bucket = replace(BUCKET, epoch=epoch)
    model = bucket.model()
    model.learn(make_batch("main", lists, seed=offset)[1])
    return take_snapshot(
        model, bucket, samples_offset=offset, topic_id="t", partition=0, published_at_ms=round(time.time() * 1000)
    )


@pytest.fixture
def store(redis_url, request):
    """An online store with a key space of its own."""
    online = RedisParameters(Settings(redis=redis_url, topic_prefix=f"{request.node.name[:40].strip('[]')}-"))
    yield online
    online.close()


def test_redis_never_goes_back(store):
    versions = [(1, 5), (1, 9), (1, 7), (2, 0), (1, 99), (2, 3)]
    snapshots = [snapshot_at(offset, epoch=epoch) for epoch, offset in versions]
    written = [store.put(one, encode(one)) for one in [*snapshots, snapshots[-1]]]
    assert written == [True, True, False, True, False, True, False]
    assert store.newest("main").version == (2, 3)
    assert store.newest("main", after=(2, 3)) is None
    assert store.newest("main", after=(2, 2)).version == (2, 3)
    assert store.newest("nobody") is None


def test_redis_never_goes_back_under_many_writers(store):
    snapshots = [snapshot_at(offset) for offset in range(60)]
    order = np.random.default_rng(4).permutation(60)

    def write(numbers):
        own = RedisParameters(store_settings)
        for number in numbers:
            own.put(snapshots[number], encode(snapshots[number]))
        own.close()

    store_settings = Settings(redis=f"redis://{store.address}", topic_prefix=store.prefix[8:-11])
    threads = [threading.Thread(target=write, args=(order[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.newest("main").version == (1, 59)


def test_redis_heals_what_was_damaged_at_the_same_version(store, redis_url):
    snapshot = snapshot_at(5)
    data = encode(snapshot)
    store.put(snapshot, data)
    raw = redis.Redis.from_url(redis_url)
    raw.hset(store.key("main"), "snapshot", data[:-4] + b"oops")
    with pytest.raises(SnapshotCorrupt):
        store.newest("main")
    assert store.put(snapshot, data)
    assert store.newest("main") == snapshot
    raw.delete(store.key("main"))
    raw.set(store.key("main"), "something else")
    assert store.put(snapshot, data)
    assert store.newest("main") == snapshot


def test_nonsense_with_the_highest_version_is_replaced(store, redis_url):
    good, bad = snapshot_at(5), replace(snapshot_at(6, epoch=2**31 - 1), sha256="0" * 64)
    assert store.put(bad, encode(bad))
    assert store.put(good, encode(good))
    assert store.newest("main") == good
    raw = redis.Redis.from_url(redis_url)
    raw.hset(store.key("main"), mapping={"offset": 10**15, "snapshot": b"nonsense"})
    assert store.put(good, encode(good))
    assert store.newest("main") == good


def test_a_higher_version_of_another_topic_is_said(store, caplog):
    old = replace(snapshot_at(4200), samples_topic_id="gone")
    new = replace(snapshot_at(7), samples_topic_id="made anew")
    assert store.put(old, encode(old))
    assert [store.put(new, encode(new)) for _ in range(2)] == [False, False]
    [said] = [record.message for record in caplog.records if record.name == "streams.parameters.job.redis"]
    assert "learned from another samples topic" in said
    assert "raise the epoch" in said


def test_a_ranker_on_redis_keeps_the_last_good_snapshot(store, redis_url):
    first, second = snapshot_at(5), snapshot_at(8)
    settings = Settings(redis=redis_url, topic_prefix=store.prefix[8:-11])
    with pytest.raises(SnapshotMissing, match=r"glimpse:.*parameters:main' in Redis at .*; start one: glimpse learn"):
        Ranker.from_redis(settings, bucket="main")
    store.put(first, encode(first))
    with Ranker.from_redis(settings, bucket="main", refresh_s=None) as ranker:
        raw = redis.Redis.from_url(redis_url)
        raw.hset(store.key("main"), mapping={"offset": 7, "snapshot": encode(second)[:-20]})
        assert not ranker.refresh()
        assert (ranker.version, ranker.refused) == ((1, 5), 1)
        store.put(second, encode(second))
        assert ranker.refresh()
        assert ranker.version == (1, 8)
        np.testing.assert_array_equal(ranker.rank(CANDIDATES), restore_model(BUCKET, second).rank(CANDIDATES))
    with Ranker.from_url(redis_url, bucket="main", settings=settings, refresh_s=None) as ranker:
        assert ranker.version == (1, 8)


def test_redis_that_is_away_is_said_without_its_password():
    away = RedisParameters(Settings(redis="redis://127.0.0.1:1/0", redis_password="secret"))
    for call in (lambda: away.newest("main"), lambda: away.put(snapshot_at(1), encode(snapshot_at(1)))):
        with pytest.raises(SourceAway, match=r"Redis at 127\.0\.0\.1:1 ") as said:
            call()
        assert "secret" not in str(said.value)


@pytest.fixture
def owned(settings_for):
    """The owner of the only samples partition, with its settings."""
    owners = []

    def make(bucket=BUCKET):
        settings = settings_for(buckets={bucket.name: bucket}, partitions=1)
        owners.append(owner_of(Store(settings)))
        owners[-1].restore()
        return settings, owners[-1]

    yield make
    for owner in owners:
        owner.close()
        owner.store.close()


def test_a_ranker_on_kafka_starts_with_nothing_learned_and_follows(owned):
    settings, owner = owned()
    with Ranker.from_kafka(settings, bucket="main", refresh_s=0.05) as ranker:
        assert (ranker.version, ranker.snapshot.rounds) == ((1, 0), 0)  # a cold start can rank
        assert len(ranker.rank(CANDIDATES, size=5)) == 5
        batch, samples = make_batch("main", 30, seed=1)
        feed(owner, [LogRecord(0, 0, None, encode(batch))])
        give_up_at = time.monotonic() + 60
        while ranker.version != (1, 1) and time.monotonic() < give_up_at:
            time.sleep(0.02)
        model = BUCKET.model()
        model.learn(samples)
        np.testing.assert_array_equal(ranker.rank(CANDIDATES), model.rank(CANDIDATES))
        assert ranker.age_s < 10
    with pytest.raises(SnapshotMissing, match="key 'nobody' of topic"):
        Ranker.from_kafka(settings, bucket="nobody")
    with pytest.raises(SnapshotMissing, match=r"no topic 'x-parameters' .*: glimpse topics"):
        Ranker.from_kafka(replace(settings, topic_prefix="x-"), bucket="main")


def test_many_items_travel_as_chunks_and_come_back(owned):
    bucket = Bucket("items", "pbm-ucb", dim=1, positions=4, examination=np.ones(4))
    settings, owner = owned(bucket)
    items = np.arange(60_000).reshape(-1, 4)
    samples = Samples.from_clicks(np.zeros((*items.shape, 1)), items % 3 == 0, items)
    batches = [pack("items", samples[start : start + 5_000]) for start in range(0, len(samples), 5_000)]
    writer = SampleWriter(settings)
    for batch in batches:
        writer.write_raw("items", encode(batch))
    feed(
        owner, [LogRecord(2 * number, 0, None, encode(batch)) for number, batch in enumerate(batches)]
    )  # markers between
    reader = KafkaParameters(settings)
    reader.catch_up()
    found = reader.snapshots["items"]
    assert len(found.theta_array) == 60_000
    assert len(encode(found)) > 2_000_000
    again = owner_of(Store(settings))
    assert again.restore().states["items"].model.sha256() == found.sha256
    with Ranker.from_kafka(settings, bucket="items", refresh_s=None) as ranker:
        assert ranker.rank(np.zeros((8, 1)), size=3, items=np.arange(8)).tolist() == [0, 3, 6]
    again.close()
    for one in (reader, writer):
        one.close()


def test_a_log_that_lost_learned_records_is_refused(owned):
    _, owner = owned()
    feed(owner, [LogRecord(7, 0, None, encode(make_batch("main", 5, seed=1)[0]))])
    with pytest.raises(ConfigChanged, match="ends at 0, but was learned to 8"):
        owner.restore()


def test_a_reader_waits_for_transactions_that_stand_before_the_end(owned):
    """Another partition's open transaction hides later records; a new owner must not take them for missing."""
    settings, owner = owned()
    other = KafkaProducer(**settings.kafka_options(), transactional_id=f"{settings.topic_prefix}other")
    other.init_transactions()
    other.begin_transaction()
    other.send(Topics.of(settings).parameters, key=b"other", value=b"not yet").get(timeout=10)
    feed(owner, [LogRecord(0, 0, None, encode(make_batch("main", 5, seed=1)[0]))])
    reader = KafkaParameters(settings)
    with pytest.raises(SourceAway, match="not read to its end"):
        reader.catch_up(timeout_s=1)
    assert "main" not in reader.snapshots or reader.snapshots["main"].samples_offset == 0
    threading.Timer(0.5, other.abort_transaction).start()
    reader.catch_up(timeout_s=10)
    assert reader.snapshots["main"].version == (1, 1)
    assert reader.progress[0].next_offset == 1
    reader.close()
    other.close()


class CountedBroker(BrokerPort):
    """Kafka, and how many records were polled of it."""

    def __init__(self, settings):
        super().__init__(settings)
        self.polled = 0

    def consumer(self):
        reader = super().consumer()
        poll = reader.poll

        def counted(timeout_ms):
            found = poll(timeout_ms)
            self.polled += sum(map(len, found.values()))
            return found

        reader.poll = counted
        return reader


def test_a_read_that_took_too_long_goes_on_where_it_was(settings_for):
    settings = settings_for(buckets={"main": BUCKET}, partitions=1)
    topic, broker = Topics.of(settings).parameters, CountedBroker(settings)
    done, held = (KafkaProducer(**settings.kafka_options(), transactional_id=f"{topic}-{name}") for name in "ab")
    for producer in (done, held):
        producer.init_transactions()
        producer.begin_transaction()
    versions = [snapshot_at(offset) for offset in range(20)]
    for one in versions[:10]:
        done.send(topic, key=b"main", value=encode(one)).get(timeout=10)
    done.commit_transaction()
    held.send(topic, key=b"main", value=encode(versions[10])).get(timeout=10)
    store = Store(settings, broker=broker)
    with pytest.raises(SourceAway, match="not read to its end"):
        store.reader.catch_up(timeout_s=1.5)
    assert broker.polled == 10
    held.commit_transaction()
    snapshots = store.read().snapshots
    assert snapshots["main"].version == (1, 10)
    assert broker.polled == 11, "nothing is read twice"
    for one in (done, held, store):
        one.close()


def test_a_bad_record_with_the_highest_version_hides_nothing(settings_for):
    settings = settings_for(buckets={"main": BUCKET}, partitions=1)
    topic, producer = Topics.of(settings).parameters, KafkaProducer(**settings.kafka_options())
    good = [snapshot_at(offset) for offset in (3, 8)]
    bad = replace(snapshot_at(5, epoch=2**31 - 1), positions=2**31 - 1)
    for value in (encode(good[0]), encode(bad), b"nonsense", None, encode(good[1])):
        producer.send(topic, key=b"main", value=value).get(timeout=10)
    reader = KafkaParameters(settings)
    reader.catch_up()
    assert (reader.snapshots, reader.unreadable) == ({"main": good[1]}, 3)
    for one in (reader, producer):
        one.close()


def test_less_than_what_was_learned_is_refused_at_start(settings_for):
    settings = settings_for(buckets={"main": BUCKET}, partitions=1)
    writer, owner = SampleWriter(settings), owner_of(Store(settings))
    writer.write()
    owner.restore()
    feed(owner, [LogRecord(0, 0, b"main", encode(make_batch("main", 20, seed=1)[0]))])
    newest = owner.store.read().snapshots["main"]
    assert newest.version == (1, 1)
    owner.close()
    owner.store.check()
    damaged = replace(newest, samples_offset=2, sha256="0" * 64)
    progress = Progress(newest.samples_topic_id, 0, 2, 0, [BucketStamp("main", 1, 2)], refused_to=2)
    producer = KafkaProducer(**settings.kafka_options())
    for key, record in ((b"main", damaged), (b"@samples-0", progress)):
        producer.send(Topics.of(settings).parameters, key=key, value=encode(record)).get(timeout=10)
    for refused in (owner.store.check, owner.restore):
        with pytest.raises(Hopeless, match=r"learned to 1\.2, but only main@1\.1 can be read.*epoch = 2"):
            refused()
    owner.close()
    for one in (owner.store, writer, producer):
        one.close()
