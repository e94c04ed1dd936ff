"""The servers of a drill: its own in a temporary folder, or those that are set, with topics of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import redis

from streams.broker import create_topics, delete_topics
from streams.local import LocalKafka, LocalRedis
from streams.settings import Settings

WAIT_S = 2.0
SECONDS_A_POSITION = 0.5  # how far apart simulated clicks on a list are


@dataclass(frozen=True, slots=True)
class DrillServers:
    """Where a drill plays, and what it may break there; the servers are None when they are not its own."""

    settings: Settings
    kafka: LocalKafka | None = None
    redis: LocalRedis | None = None


@contextmanager
def own_servers(settings: Settings, folder: Path) -> Iterator[DrillServers]:
    """Start a Kafka and a Redis in ``folder`` for the buckets of ``settings``, and end them afterwards."""
    kafka, store = LocalKafka(folder / "kafka"), LocalRedis(folder / "redis")
    own = Settings(kafka=kafka.bootstrap, redis=store.url, buckets=settings.buckets)
    try:
        store.start()
        kafka.start()
        ready = prepared(own)
        yield DrillServers(ready, kafka, store)
    finally:
        kafka.kill()
        store.kill()


@contextmanager
def servers_as_set(settings: Settings) -> Iterator[DrillServers]:
    """Use the servers of ``settings`` with topics and keys that nobody else has, and remove those afterwards."""
    ready = prepared(settings)
    try:
        yield DrillServers(ready)
    finally:
        delete_topics(ready)
        if ready.redis is not None:
            with redis.Redis.from_url(ready.redis, **ready.redis_client()) as client:
                for key in client.scan_iter(match=f"glimpse:{ready.topic_prefix}*"):
                    client.delete(key)


def prepared(settings: Settings) -> Settings:
    """Return the settings of a drill, with short waits, and topics of a name of their own that are made now."""
    longest = max(bucket.positions for bucket in settings.buckets.values())
    ready = replace(
        settings,
        topic_prefix=f"drill-{uuid.uuid4().hex[:8]}-",
        timestamps="CreateTime",
        partitions=2,
        wait_s=WAIT_S,
        lateness_s=WAIT_S + SECONDS_A_POSITION * longest,
        publish_every_s=0.5,
        web_host="127.0.0.1",
        web_port=0,
        join_web_port=0,
    )
    create_topics(ready)
    return ready
