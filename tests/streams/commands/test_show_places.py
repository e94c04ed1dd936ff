"""glimpse show on real servers: Kafka, Redis and a directory tell the same of one snapshot."""

import json

from kafka import KafkaProducer
from sample_batches import make_batch
from typer.testing import CliRunner

from schemas.codec import encode
from streams.commands.main import cli
from streams.parameters import DirectoryParameters, take_snapshot
from streams.parameters.job import RedisParameters
from streams.settings import Bucket, Topics

BUCKET = Bucket("main", "c2ucb", dim=3, positions=4)


def test_every_place_shows_the_same_snapshot(settings_for, redis_url, tmp_path, monkeypatch):
    settings = settings_for(buckets={"main": BUCKET}, redis=redis_url)
    model = BUCKET.model()
    model.learn(make_batch("main", 10, seed=1)[1])
    snapshot = take_snapshot(model, BUCKET, samples_offset=9, topic_id="t", partition=0, published_at_ms=1_000)
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    producer.send(Topics.of(settings).parameters, encode(snapshot), b"main").get(10)
    producer.close()
    online = RedisParameters(settings)
    online.put(snapshot, encode(snapshot))
    online.close()
    DirectoryParameters(tmp_path).put(snapshot, encode(snapshot))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLIMPSE_KAFKA", settings.kafka)
    monkeypatch.setenv("GLIMPSE_REDIS", redis_url)
    monkeypatch.setenv("GLIMPSE_TOPIC_PREFIX", settings.topic_prefix)
    shown = {}
    for source in ("kafka", "redis", str(tmp_path)):
        done = CliRunner().invoke(cli, ["show", "--json", "--source", source])
        assert done.exit_code == 0, done.exception
        [row] = [json.loads(line) for line in done.stdout.splitlines()]
        del row["age_s"]
        shown[row.pop("where")] = row
    assert set(shown) == {
        f"key 'main' of topic {Topics.of(settings).parameters!r} on Kafka at {settings.kafka}",
        f"'glimpse:{settings.topic_prefix}parameters:main' in Redis at {redis_url.split('/')[2]}",
        str(tmp_path / "main.snapshot"),
    }
    one, *others = shown.values()
    assert one["sha256"] == snapshot.sha256
    assert others == [one, one]
