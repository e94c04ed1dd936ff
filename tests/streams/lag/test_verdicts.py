"""Verdicts on real consumers: each misbehaves on its own partition, all at once, and recovers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import lag_worker
import numpy as np
import pytest
from jobs import Jobs, wait_until
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from streams.broker import admin
from streams.events.job import EventWriter
from streams.lag import Window
from streams.lag.job import LagReader
from streams.lag.report import GroupLag
from streams.lag.verdict import Verdict
from streams.settings import Bucket, Topics

SPAN_S = 6.0
THROTTLED, STALLED, STOPPED, RESET = range(4)


class Worker:
    def __init__(self, bootstrap: str, group: str, topic: str, partition: int) -> None:
        script = Path(lag_worker.__file__)
        self.process = subprocess.Popen(
            [sys.executable, str(script), bootstrap, group, topic, str(partition)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, word: str) -> None:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def input_of() -> Iterator[Callable[..., None]]:
    """Writes to all partitions of a topic, so many records a second to each, until the test ends."""
    over, threads = Event(), []

    def start(bootstrap: str, topic: str, partitions: int, rate: float) -> None:
        def write() -> None:
            producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
            began, sent = time.monotonic(), 0
            while not over.wait(0.02):
                while sent < (time.monotonic() - began) * rate:
                    sent += 1
                    for partition in range(partitions):
                        producer.send(topic, b"x" * 100, partition=partition)
            producer.close(5)

        threads.append(Thread(target=write))
        threads[0].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


def watch(reader: LagReader, group: str, wanted: dict[int, Verdict], *, within_s: float = 60.0) -> GroupLag:
    """Read until the partitions have these verdicts, all at the same time."""
    give_up_at = time.monotonic() + within_s
    while True:
        [watched] = [lag for lag in reader.read().groups if lag.group == group]
        verdicts = {partition.partition: partition.verdict for partition in watched.partitions}
        if all(verdicts.get(partition) is verdict for partition, verdict in wanted.items()):
            return watched
        assert time.monotonic() < give_up_at, [
            (partition.verdict, partition.reason) for partition in watched.partitions
        ]
        time.sleep(0.3)


def test_each_way_to_fall_behind_is_told_apart_and_ends_with_ok(settings_for, input_of):
    settings = settings_for(timestamps="LogAppendTime", partitions=4)
    topic, group = Topics.of(settings).impressions, f"{settings.topic_prefix}workers"
    workers = [Worker(settings.kafka, group, topic, number) for number in range(4)]
    reader = LagReader(settings, groups=[group], window=Window(span_s=SPAN_S, commits=6))
    fine = dict.fromkeys(range(4), Verdict.OK)
    try:
        for worker in workers:
            worker.ready()
        input_of(settings.kafka, topic, 4, rate=150)
        time.sleep(1)
        watch(reader, group, fine)

        workers[THROTTLED].tell("40")
        workers[STALLED].tell("0")
        os.kill(workers[STOPPED].process.pid, signal.SIGSTOP)
        watched = watch(
            reader,
            group,
            {THROTTLED: Verdict.WARN, STALLED: Verdict.STALL, STOPPED: Verdict.STOP, RESET: Verdict.OK},
        )
        throttled, stalled, stopped, _ = watched.partitions
        assert "falls behind: lag grew from" in throttled.reason
        assert throttled.rate_out < 0.5 * throttled.rate_in
        assert throttled.catch_up_s is None
        assert f"commits, but stays at {stalled.position}" in stalled.reason
        assert stalled.rate_out == 0
        assert stopped.reason.startswith("no commit for ")
        assert stopped.lag_s > SPAN_S
        assert watched.verdict is Verdict.STOP
        assert watched.reason == f"{topic}[{STOPPED}] {stopped.reason} (1 of 4 partitions)"

        workers[RESET].tell("hold")
        time.sleep(0.5)
        with admin(settings) as client:
            client.alter_group_offsets(group, {TopicPartition(topic, RESET): OffsetAndMetadata(0, "", -1)})
        watched = watch(reader, group, {RESET: Verdict.REWIND}, within_s=60)
        assert "went back from" in watched.partitions[RESET].reason
        assert " to 0 " in watched.partitions[RESET].reason

        workers[THROTTLED].tell("1e9")
        workers[STALLED].tell("1e9")
        os.kill(workers[STOPPED].process.pid, signal.SIGCONT)
        workers[RESET].tell("reset")
        watched = watch(reader, group, fine)
        assert max(partition.lag_s for partition in watched.partitions) < SPAN_S
    finally:
        reader.close()
        for worker in workers:
            worker.end()


def test_the_real_jobs_are_measured_where_they_are(settings_for, tmp_path):
    bucket = Bucket("main", algorithm="c2ucb", dim=2, positions=2)
    settings = settings_for(
        timestamps="LogAppendTime", partitions=1, wait_s=6, lateness_s=600, buckets={"main": bucket}
    )
    jobs = Jobs(settings, tmp_path)
    window = Window(span_s=SPAN_S, commits=10)
    try:
        join, learn = jobs.start("join", "--from", "earliest"), jobs.start("learn")
        with EventWriter(settings) as events, LagReader(settings, window=window) as reader:

            def show(many):
                for number in range(many):
                    shown = events.impression([1, 2], np.full((2, 2), 0.5), session_id="s", bucket="main", user_id="u")
                    if number % 3 == 0:
                        events.click(shown, 1, session_id="s")
                events.flush()

            def read():
                join, learn = reader.read().groups
                return join.partitions[0], learn.partitions[0]

            show(60)
            wait_until(lambda: read()[0].position == 60, timeout_s=60, jobs=jobs)
            shown, _ = read()
            assert (shown.committed, shown.lag, shown.lag_s, shown.verdict) == (0, 0, 0.0, Verdict.OK)  # all are open
            seen = []

            def caught_up():
                seen.append(read())
                return (seen[-1][1].position or 0) > 0 and not seen[-1][1].lag

            wait_until(caught_up, timeout_s=60, jobs=jobs)
            shown, learned = seen[-1]  # not a later look: on a slow machine the lists end in several transactions
            assert (shown.lag, learned.lag) == (0, 0)  # behind the samples there is a marker, which is no lag
            assert learned.position < learned.end
            assert shown.retention_left_s == pytest.approx(7 * 86_400, abs=120)

            for process in (join, learn):
                process.send_signal(signal.SIGSTOP)
            show(10)
            wait_until(lambda: read()[0].verdict is Verdict.STOP, timeout_s=60)
            assert read()[0].lag == 10
            for process in (join, learn):
                process.send_signal(signal.SIGCONT)
            wait_until(lambda: read()[0].verdict is Verdict.OK and not read()[0].lag, timeout_s=60, jobs=jobs)
    finally:
        jobs.close()
