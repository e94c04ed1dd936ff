"""What a drill breaks: servers, its own or those that are set, and workers on topics of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import redis
from numpy.typing import NDArray

from streams.broker import create_topics, delete_topics
from streams.join.job import run_join
from streams.learn.job import run_learn
from streams.local import LocalKafka, LocalRedis, end_processes, end_with_parent
from streams.settings import Bucket, Settings

POSITIONS, DIM = 8, 6  # of its own buckets
WAIT_S = 2.0
SECONDS_A_POSITION = 0.5  # how far apart simulated clicks on a list are


@dataclass(frozen=True, slots=True)
class DrillServers:
    """Where a drill plays, and the servers that it may break there by name: none unless they are its own."""

    settings: Settings
    own: Mapping[str, LocalKafka | LocalRedis] = field(default_factory=dict)


@contextmanager
def own_servers(settings: Settings, folder: Path) -> Iterator[DrillServers]:
    """Start a Kafka and a Redis in ``folder`` for the buckets of ``settings``, and end them afterwards."""
    kafka, store = LocalKafka(folder / "kafka"), LocalRedis(folder / "redis")
    own = Settings(kafka=kafka.bootstrap, redis=store.url, buckets=settings.buckets)
    try:
        store.start()
        kafka.start()
        yield DrillServers(prepared(own), {"kafka": kafka, "redis": store})
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
    """Return the settings of a drill, with buckets and short waits, and create its topics."""
    settings = replace(settings, buckets=settings.buckets or own_buckets())
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


def own_buckets() -> dict[str, Bucket]:
    """Return a bucket that weighs by examination, one that weighs nothing, and one without contexts."""
    seen: NDArray[np.float64] = np.float_power(0.85, np.arange(POSITIONS))
    return {
        "ubm": Bucket("ubm", "ubm-linucb", DIM, POSITIONS, np.tril(np.tile(seen[:, None], POSITIONS)), alpha=0.3),
        "plain": Bucket("plain", "c2ucb", DIM, POSITIONS, alpha=0.3),
        "items": Bucket("items", "pbm-ucb", 0, POSITIONS, seen, alpha=0.3),
    }


class Workers:
    """Some processes of each kind; what they print goes to files in ``folder``."""

    def __init__(self, settings: Settings, folder: Path, *, each: int) -> None:
        self.settings, self.folder, self.each = settings, folder, each
        self.ended = 0  # by themselves
        self._spawn = multiprocessing.get_context("spawn")
        self._started = 0
        self._running: dict[str, list[BaseProcess]] = {"join": [], "learn": []}
        self.tend()

    def tend(self, *, but: str = "") -> None:
        """Start what is missing, as whoever watches workers would; those of the kind ``but`` are left alone."""
        for kind, workers in self._running.items():
            alive = [worker for worker in workers if worker.exitcode is None]
            self.ended += len(workers) - len(alive)
            missing = 0 if kind == but else self.each - len(alive)
            self._running[kind] = alive + [self._start(kind) for _ in range(missing)]

    def kill(self, kind: str) -> int:
        """Kill the oldest worker of a kind (kill -9) and return its process id."""
        worker = self._running[kind].pop(0)
        worker.kill()
        worker.join()
        return worker.pid or 0

    def freeze(self, kind: str) -> int:
        """Stop the oldest worker of a kind where it stands, and return its process id."""
        pid = self._running[kind][0].pid or 0
        os.kill(pid, signal.SIGSTOP)
        return pid

    def thaw(self, pid: int) -> None:
        """Let a frozen worker go on."""
        os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End all of them."""
        end_processes([*self._running["join"], *self._running["learn"]], grace_s=12)

    def _start(self, kind: str) -> BaseProcess:
        self._started += 1
        log = self.folder / f"{self._started:02}-{kind}.log"
        worker = self._spawn.Process(target=be_worker, args=(kind, self.settings, log), name=kind, daemon=True)
        worker.start()
        return worker


def be_worker(kind: str, settings: Settings, log: Path) -> None:
    """Be one of the processes."""
    end_with_parent()
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.exit(run_join(settings, start="earliest") if kind == "join" else run_learn(settings))
