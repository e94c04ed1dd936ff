"""The ranking service while Kafka or Redis is away: it ranks on, and what happened meanwhile is not lost."""

import time
from dataclasses import replace

from ranking import Client, logged, serving, write_npz
from sample_batches import make_batch

from schemas.codec import encode
from schemas.records import Click
from streams.broker import catalogue_topic, create_topics, producer, topic_specs
from streams.events.job import queue as queue_of_events
from streams.parameters import take_snapshot
from streams.parameters.job import RedisParameters
from streams.rank import read_catalogue
from streams.rank.catalogue_file import read_entries
from streams.settings import Bucket, Settings

BUCKET = Bucket("main", dim=10, positions=12, alpha=0.3)


def until(done, *, within_s=60.0):
    end = time.monotonic() + within_s
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    assert done()


def write_lines(settings, file):
    """Write a catalogue as a service might: line by line, in no transaction."""
    to = producer(settings)
    for key, line in read_entries(file).lines().items():
        to.send(catalogue_topic(settings).name, line.encode(), key=key.encode())
    to.close()


def test_events_wait_for_a_broker_that_is_away_and_reach_it_once_it_is_back(new_broker, tmp_path, monkeypatch):
    monkeypatch.setattr(queue_of_events, "GIVE_UP_MS", 3000)  # sooner than a service would, to wait less here
    broker = new_broker()
    settings = Settings(kafka=broker.bootstrap, buckets={"main": BUCKET}, timestamps="CreateTime")
    create_topics(settings, [*topic_specs(settings), catalogue_topic(settings)])
    write_lines(settings, write_npz(tmp_path / "shop.npz"))
    with serving(settings, source=str(tmp_path), catalogue="kafka", refresh_s=0.1) as server:
        client, queue = Client(server), server.service.queue

        def visits(count):
            shown = [client.post("/rank", {"user": f"u{n}"}).found for n in range(count)]
            assert all(one["logged"] for one in shown)
            for one in shown:
                click = {"impression_id": one["impression_id"], "session_id": one["session_id"], "position": 1}
                assert client.post("/click", click).status == 202
            return [one["impression_id"] for one in shown]

        ids = visits(30)
        until(lambda: queue.waiting_bytes == 0)
        broker.kill()
        ids += visits(100)
        assert queue.waiting_bytes > 0
        assert client.get("/readyz").status == 200
        broker.start()
        ids += visits(30)
        until(lambda: queue.waiting_bytes == 0)
        ids += visits(5)
        until(lambda: queue.waiting_bytes == 0)
        assert (queue.refused, queue.lost, queue.delivered) == (0, 0, 2 * len(ids))
        impressions, clicks = logged(settings, wanted=2 * len(ids), different=True)
        assert {one.impression_id for one in impressions} == set(ids)
        assert {one.impression_id for one in clicks} == set(ids)
        another = write_npz(tmp_path / "another.npz", seed=1)
        write_lines(settings, another)
        until(lambda: server.service.models.catalogue.version == read_catalogue(another).version)


def test_the_last_event_is_sent_again_though_no_other_comes(new_broker, monkeypatch):
    monkeypatch.setattr(queue_of_events, "GIVE_UP_MS", 3000)
    broker = new_broker()
    settings = Settings(kafka=broker.bootstrap, buckets={"main": BUCKET})
    create_topics(settings)
    queue = queue_of_events.EventQueue(settings)
    queue.offer([Click("i1", "s1", 1, 5)])
    until(lambda: queue.delivered == 1)
    broker.kill()
    queue.offer([Click("i1", "s1", 2, 5)])
    until(lambda: not queue.connected)
    broker.start()
    until(lambda: queue.delivered == 2)
    queue.close()


def snapshot(offset, bucket=BUCKET):
    model = bucket.model()
    model.learn(make_batch("main", 30, seed=offset, dim=bucket.dim)[1])
    return take_snapshot(model, bucket, samples_offset=offset, topic_id="t", partition=0, published_at_ms=0)


def test_lists_are_ranked_with_the_last_good_snapshot_while_redis_is_away_or_wrong(new_redis, tmp_path):
    store = new_redis()
    settings = Settings(kafka="127.0.0.1:9", redis=store.url, buckets={"main": BUCKET})
    parameters = RedisParameters(settings)

    def put(one):
        parameters.put(one, encode(one))

    put(snapshot(1))
    with serving(settings, catalogue=write_npz(tmp_path / "shop.npz"), refresh_s=0.05) as server:
        client, models = Client(server), server.service.models

        def version():
            said = client.post("/rank", {"user": "u"})
            assert said.status == 200
            return said.found["version"]

        assert version() == [1, 1]
        store.kill()
        until(lambda: not all(ranker.source_up for ranker in models.rankers.values()))
        assert version() == [1, 1]
        store.start()
        put(snapshot(2))
        until(lambda: version() == [1, 2])
        put(snapshot(7, replace(BUCKET, dim=4)))  # for contexts of another length
        until(lambda: models.rankers["main"].refused > 0)
        assert version() == [1, 2]
        assert 'glimpse_ranker_refused_total{bucket="main"}' in client.get("/metrics").found
        put(snapshot(9))
        until(lambda: version() == [1, 9])
        store.kill()
        with serving(settings, catalogue=tmp_path / "shop.npz", refresh_s=0.05) as late:  # nobody knows what there is
            client = Client(late)
            assert client.post("/rank", {"user": "u"}).found["version"] == [0, -1]
            assert client.get("/readyz")[:2] == (503, "no answer yet where the snapshots of main are\n")
            store.start()
            until(lambda: client.get("/readyz").status == 200)
    parameters.close()
