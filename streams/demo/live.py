"""The demo on Kafka: its events through real join and learn processes, their snapshots to its rankers."""

from __future__ import annotations

import multiprocessing
import sys
import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self

from kafka.errors import KafkaError

from streams.broker import create_topics, delete_topics
from streams.events import Event
from streams.events.job import EventWriter
from streams.join import Ledger
from streams.join.job import run_join
from streams.learn.job import run_learn
from streams.ledger.job import join_commits
from streams.logs.job import open_source
from streams.parameters import SnapshotMissing
from streams.rank.job import Ranker
from streams.settings import Settings

PATIENCE_S = 60.0  # for both jobs to be up


class LiveLoop:
    """The same loop as the embedded runner, at the pace of the clock: topics of its own, a join and a learn process.

    The topics are deleted in the end, also after Ctrl-C.
    """

    def __init__(self, settings: Settings) -> None:
        prefix = f"demo-{uuid.uuid4().hex[:8]}-"
        self.settings = replace(settings, topic_prefix=prefix, web_port=0, join_web_port=0, redis=None)
        spawn = multiprocessing.get_context("spawn")
        self._jobs = [
            spawn.Process(target=joining, args=(self.settings,), name="join", daemon=True),
            spawn.Process(target=learning, args=(self.settings,), name="learn", daemon=True),
        ]
        self._rankers: list[Ranker] = []
        with ExitStack() as begun:
            begun.callback(clean_up, self.settings)
            create_topics(self.settings)
            for job in self._jobs:
                begun.callback(end, job)
                job.start()
            self._events = EventWriter(self.settings)
            begun.callback(self._events.close)
            self._ending = begun.pop_all()

    def append(self, events: Iterable[Event], *, at_ms: int) -> None:
        """Write events to Kafka once the clock has come to ``at_ms``."""
        self._sleep_until(at_ms)
        for event in events:
            self._events.send(event)

    def step(self, now_ms: int) -> None:
        """Let time pass; the jobs do the rest."""
        self._sleep_until(now_ms)

    def _sleep_until(self, at_ms: int) -> None:
        while (left_s := at_ms / 1000 - time.time()) > 0:
            for job in self._jobs:
                if not job.is_alive():
                    raise RuntimeError(f"the {job.name} process has ended with code {job.exitcode}")
            time.sleep(min(left_s, 1.0))

    def ranker(self, bucket: str, *, refresh_s: float | None = None, **options: Any) -> Ranker:
        """Return a ranker on the parameters topic; the first ones wait until the learner is up."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                ranker = Ranker.from_kafka(self.settings, bucket=bucket, refresh_s=refresh_s, **options)
            except SnapshotMissing:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.5)
            else:
                self._rankers.append(ranker)
                return ranker

    @property
    def ledgers(self) -> dict[int, Ledger]:
        """What became of the events of each partition, by the join's last commits."""
        commits = join_commits(open_source("kafka", self.settings))
        return {number: commit.ledger for number, commit in commits.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._ending:
            for ranker in self._rankers:
                ranker.close()
            for job in self._jobs:
                job.terminate()  # both, and then wait


def end(job: BaseProcess) -> None:
    """End a process that was started."""
    if job.pid is not None:
        job.terminate()
        job.join(15)
        job.kill()
        job.join()


def clean_up(settings: Settings) -> None:
    """Delete the topics of a demo, or say which are left and how to delete them."""
    try:
        delete_topics(settings)
    except KafkaError as error:
        command = f"kafka-topics.sh --bootstrap-server {settings.kafka} --delete --topic '{settings.topic_prefix}.*'"
        print(f"the demo's topics could not be deleted: {error}; do it with: {command}", file=sys.stderr)


def joining(settings: Settings) -> None:
    """Be the join process."""
    sys.exit(run_join(settings, start="earliest"))


def learning(settings: Settings) -> None:
    """Be the learn process."""
    sys.exit(run_learn(settings))
