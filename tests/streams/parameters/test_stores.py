"""What every store of snapshots does alike: Kafka, Redis, a directory."""

import re
import time
from contextlib import closing
from dataclasses import replace

import pytest
from sample_batches import make_batch

from learner import ALGORITHMS, C2Ucb
from schemas.codec import encode
from streams.parameters import AlgorithmUnknown, DirectoryParameters, take_snapshot
from streams.parameters.job import (
    STORES,
    KafkaParameters,
    RedisParameters,
    SourceUnknown,
    online_store,
    open_parameters,
    serving_store,
)
from streams.rank.job import Ranker
from streams.settings import Bucket, Settings

BUCKET = Bucket("main", "c2ucb", dim=3, positions=4)


def snapshot_at(offset, *, epoch=1, bucket=BUCKET):
    bucket = replace(bucket, epoch=epoch)
    model = bucket.model()
    model.learn(make_batch(bucket.name, 10, seed=offset, dim=bucket.dim)[1])
    return take_snapshot(model, bucket, samples_offset=offset, topic_id="t", partition=0, published_at_ms=1_000)


@pytest.fixture(params=STORES, ids=lambda store: store.__name__)
def addressed(request, tmp_path):
    """Settings and an address of an empty store, for each that there is."""
    if request.param is DirectoryParameters:
        return Settings(buckets={"main": BUCKET}), str(tmp_path)
    if request.param is RedisParameters:
        url = request.getfixturevalue("redis_url")
        prefix = f"{request.node.originalname[:60]}-"
        return Settings(buckets={"main": BUCKET}, redis=url, topic_prefix=prefix), url
    settings = request.getfixturevalue("settings_for")(buckets={"main": BUCKET}, partitions=1)
    return settings, f"kafka://{settings.kafka}"


@pytest.fixture
def store(addressed):
    """An empty store."""
    settings, address = addressed
    with closing(open_parameters(address, settings)) as opened:
        yield opened


def test_a_store_never_goes_back(store):
    versions = [(1, 5), (1, 9), (1, 7), (2, 0), (1, 99), (2, 3)]
    snapshots = [snapshot_at(offset, epoch=epoch) for epoch, offset in versions]
    written = [store.put(snapshot, encode(snapshot)) for snapshot in [*snapshots, snapshots[-1]]]
    assert written == [True, True, False, True, False, True, False]
    assert store.newest("main") == snapshots[-1]
    assert store.newest("main", after=(2, 3)) is None
    assert store.newest("main", after=(2, 2)) == snapshots[-1]


def test_a_store_knows_its_buckets(store):
    assert (store.buckets(), store.newest("main")) == ([], None)
    other = snapshot_at(3, bucket=replace(BUCKET, name="other"))
    for snapshot in (snapshot_at(1), other):
        store.put(snapshot, encode(snapshot))
    assert store.buckets() == ["main", "other"]
    assert store.newest("other") == other
    assert store.newest("nobody") is None
    assert "nobody" in store.where("nobody")


def test_a_store_that_is_opened_again_has_what_was_put(addressed, store):
    settings, address = addressed
    large = snapshot_at(4, bucket=replace(BUCKET, dim=400))  # several records on Kafka
    assert store.put(large, encode(large))
    for name in {address, type(store).name or address}:
        with closing(open_parameters(name, settings)) as again:
            assert type(again) is type(store)
            assert again.newest("main") == large


class OfTomorrow(C2Ucb):
    name = "of-tomorrow"


TOLD = "main@2.9 was learned by 'of-tomorrow'; this process knows ubm-linucb, .*; install the version .* or register"


@pytest.fixture
def strange(monkeypatch):
    """A snapshot of epoch 2 by an algorithm that is not registered."""
    with monkeypatch.context() as registered:
        registered.setitem(ALGORITHMS, OfTomorrow.name, OfTomorrow)
        return snapshot_at(9, epoch=2, bucket=replace(BUCKET, algorithm=OfTomorrow.name))


def test_rankers_refuse_a_snapshot_of_an_algorithm_that_they_do_not_know(store, strange):
    known = snapshot_at(5)
    store.put(known, encode(known))
    ranker = Ranker(store, bucket="main", refresh_s=None)
    store.put(strange, encode(strange))
    give_up_at = time.monotonic() + 10
    while ranker.refused < 2 and time.monotonic() < give_up_at:  # refused at each look, as on every store
        assert not ranker.refresh()
    assert (ranker.refused, ranker.version) == (2, known.version)
    with pytest.raises(AlgorithmUnknown, match=TOLD):
        Ranker(store, bucket="main", refresh_s=None)
    newer = snapshot_at(0, epoch=3)
    assert store.put(newer, encode(newer))
    while ranker.version != newer.version and time.monotonic() < give_up_at:
        ranker.refresh()
    assert ranker.version == newer.version


def test_writers_never_replace_a_snapshot_of_an_algorithm_that_they_do_not_know(store, strange):
    store.put(strange, encode(strange))
    for older in (snapshot_at(9), snapshot_at(9, epoch=2)):  # the second one has the same version
        with pytest.raises(AlgorithmUnknown) as refused:
            store.put(older, encode(older))
        assert str(refused.value).startswith(f"{store.where('main')} is not replaced by main@{older.epoch}.9: ")
        assert re.search(TOLD, str(refused.value))
    assert store.newest("main") == strange
    assert store.buckets() == ["main"]


def test_a_store_that_is_written_here_and_registered_is_filled_and_served(tmp_path, monkeypatch):
    class Shelf(DirectoryParameters):
        name, schemes = "shelf", ("shelf",)

        @classmethod
        def at(cls, address, settings):
            return cls(address.removeprefix("shelf://"))

        @classmethod
        def online(cls, settings):
            return f"shelf://{tmp_path}"

    monkeypatch.setattr("streams.parameters.job.open.STORES", (*STORES, Shelf))
    settings = Settings()
    snapshot = snapshot_at(3)
    with closing(online_store(settings)) as online:
        assert isinstance(online, Shelf)
        assert online.put(snapshot, encode(snapshot))
    assert serving_store(settings) == "shelf"
    with Ranker.from_url(f"shelf://{tmp_path}", bucket="main", refresh_s=None) as ranker:
        assert ranker.version == (1, 3)
    with pytest.raises(SourceUnknown, match="kafka, redis, a directory or shelf, got 'ftp://x'"):
        open_parameters("ftp://x")


def test_the_table_of_stores_decides_who_serves(redis_url):
    assert len({scheme for store in STORES for scheme in store.schemes}) == sum(len(store.schemes) for store in STORES)
    with_redis = Settings(redis=redis_url)
    assert (serving_store(Settings()), serving_store(with_redis)) == (KafkaParameters.name, RedisParameters.name)
    assert online_store(Settings()) is None
    with closing(online_store(with_redis)) as online:
        assert isinstance(online, RedisParameters)
    with pytest.raises(SourceUnknown, match="kafka, redis or a directory, got 'ftp://x'"):
        open_parameters("ftp://x")
