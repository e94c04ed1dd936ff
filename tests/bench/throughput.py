"""The stream jobs on a real broker, with either client, beside loops and frameworks without any guarantee, in turns.

K = 12, d = 10, four partitions, 0.4 clicks a list, wait and lateness 10 s, exactly once. The logs are written first,
then read as fast as they can be. Prints medians as `name value unit`: impressions a second, CPU and memory of all
processes, ratios; frameworks have shorter logs of the same make. What bad records cost is less than two turns differ:
so it is the median of three times as many pairs of turns, with bounds that hold the true one in 19 of 20 runs.
`python tests/bench/throughput.py [LISTS [ALTERNATIONS [COMPRESSION]]]`: lz4, zstd or none, of the events on the wire;
without alternations a killed join is restarted, and nothing else is measured.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import numpy as np
import psutil
from kafka import KafkaProducer, TopicPartition
from scipy.stats import binom

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from framework_joins import SCRIPTS, python_with, run_framework  # noqa: E402
from jobs import Jobs, wait_until  # noqa: E402
from plain_loops import DIM, K, Measured, confluent_loop, kafka_python_loop, measured  # noqa: E402

from schemas.codec import encode  # noqa: E402
from schemas.records import Click, Impression  # noqa: E402
from streams.broker import admin_client, create_topics, delete_topics  # noqa: E402
from streams.join import Commit  # noqa: E402
from streams.local.kafka import LocalKafka  # noqa: E402
from streams.parameters.job import KafkaParameters  # noqa: E402
from streams.settings import Bucket, Settings, Topics  # noqa: E402

CLICKS = 0.4  # a list
RATE = 2_000  # lists a second of the log's own time, which has to pass the wait for lists to close while it is read
FRAMEWORK_LISTS = 20_000  # all of a log, for clicks come faster than lists; they take the slowest 10 s
PARTITIONS, JOIN_PORT, LEARN_PORT = 4, 6367, 6366
START_MS = (int(time.time()) - 7200) * 1000


def fill(settings: Settings, lists: int, partitions: range, bad_every: int, compression: str | None) -> None:
    """Write those lists and clicks that fall to some partitions, at the times of ``RATE`` lists a second, in order.

    With ``bad_every``, one record in so many is none that anybody can read.
    """
    topics = Topics.of(settings)
    batching = {"acks": 1, "linger_ms": 50, "batch_size": 1 << 19, "compression_type": compression}
    producer = KafkaProducer(**settings.kafka_options(), **batching, max_block_ms=600_000)
    random = np.random.default_rng(partitions.start)
    contexts = [block.tobytes() for block in random.uniform(-1, 1, (500, K, DIM)).astype("<f4")]
    items = [block.tobytes() for block in random.integers(0, 10**6, (500, K))]
    taps = []
    for number in (number for number in range(lists) if number % PARTITIONS in partitions):
        at = START_MS + number * 1000 // RATE
        session = f"session-{number:09}"
        shown = Impression(
            f"list-{number:012}", session, "main", "user", at, items[number % 500], contexts[number * 7 % 500], K
        )
        place = {"key": session.encode(), "partition": number % PARTITIONS, "timestamp_ms": at}
        producer.send(topics.impressions, encode(shown), **place)
        if bad_every and random.random() < 1 / bad_every:
            producer.send(topics.impressions, b"no Avro at all", **place)
        for position in np.flatnonzero(random.random(K) < CLICKS / K) + 1:
            late = int(random.integers(500, 8000) if random.random() < 0.98 else random.integers(10_000, 18_000))
            tap = Click(shown.impression_id, session, int(position), at + late)
            taps.append((tap, place | {"timestamp_ms": tap.clicked_at_ms}))
    for click, place in sorted(taps, key=lambda tap: tap[0].clicked_at_ms):
        producer.send(topics.clicks, encode(click), **place)
    producer.flush()
    producer.close()


class Progress:
    """How many good impressions the join has behind it; asked through one client, since making one takes a core."""

    def __init__(self, settings: Settings) -> None:
        self._admin, self._group = admin_client(settings), f"{settings.topic_prefix}glimpse-join"
        self._events = Topics.of(settings).events
        self.marks: list[tuple[float, int]] = []  # when it was seen that so many were done

    def done(self) -> int:
        """Return how many there are now."""
        found = self._admin.list_group_offsets(self._group)[self._group]
        ledgers = []
        for number in range(PARTITIONS):
            entries = [found.get(TopicPartition(topic, number)) for topic in self._events]
            if None not in entries:
                ledgers.append(Commit.decode(*((entry.offset, entry.metadata) for entry in entries))[0].ledger)
        count = sum(ledger.impressions - ledger.dead_impressions for ledger in ledgers)
        if not self.marks or count > self.marks[-1][1]:
            self.marks.append((time.monotonic(), count))
        return count

    def close(self) -> None:
        """Let go of the client."""
        self._admin.close()


def seconds_of_cpu(process: psutil.Process) -> float:
    """User and system time of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def keep_to(process: psutil.Process, cores: set[int]) -> None:
    """Have every thread of a process run on these cores alone."""
    for thread in process.threads():
        with suppress(ProcessLookupError):  # it has ended just now
            os.sched_setaffinity(thread.id, cores)


def run_jobs(settings: Settings, folder: Path, lists: int, *, apart: bool = False) -> Measured:
    """Return what join and learn take, exactly once; ``apart``, the join has a core of its own."""
    jobs = Jobs(settings, folder)
    try:
        learner = psutil.Process(jobs.start("learn").pid)
        wait_until(lambda: ready(settings.web_port), timeout_s=60, jobs=jobs, every_s=0.02)
        joiner = psutil.Process(jobs.start("join", "--from", "earliest").pid)
        wait_until(lambda: ready(settings.join_web_port), timeout_s=60, jobs=jobs, every_s=0.02)
        running = [joiner, learner]
        if apart:
            keep_to(joiner, {1})
        began_s = sum(map(seconds_of_cpu, running))  # loading Python and its libraries, as the loops had before
        progress = Progress(settings)
        wait_until(lambda: progress.done() >= lists, timeout_s=600, jobs=jobs, every_s=0.02)
        progress.close()
        parameters = KafkaParameters(settings)
        wait_until(lambda: learned(parameters) >= lists, timeout_s=120, jobs=jobs)
        parameters.close()
        cpu_s = sum(map(seconds_of_cpu, running)) - began_s
        return measured(progress.marks, cpu_s, sum(one.memory_info().rss for one in running), lists)
    finally:
        jobs.close()


def learned(parameters: KafkaParameters) -> int:
    parameters.catch_up()
    return sum(snapshot.rounds for snapshot in parameters.snapshots.values())


def restart(settings: Settings, folder: Path, lists: int) -> tuple[float, float, float]:
    """Return the bytes of an open list, and the seconds until a killed join is ready, of all and since assigned.

    What it reads is assigned once it says from where it goes on.
    """
    jobs = Jobs(settings, folder)
    try:
        first = jobs.start("join", "--from", "earliest")
        wait_until(lambda: ready(settings.join_web_port), timeout_s=60, jobs=jobs)
        empty = psutil.Process(first.pid).memory_info().rss
        progress = Progress(settings)
        wait_until(lambda: progress.done() >= lists, timeout_s=600, jobs=jobs)
        progress.close()
        time.sleep(12)  # what reading took is given back
        full = psutil.Process(first.pid).memory_info().rss
        jobs.kill(first)
        started = time.monotonic()
        printed = jobs.logs[jobs.start("join").pid]
        wait_until(lambda: "after rereading" in printed.read_text(), timeout_s=120, jobs=jobs, every_s=0.05)
        assigned = time.monotonic()
        wait_until(lambda: ready(settings.join_web_port), timeout_s=120, jobs=jobs, every_s=0.05)
        return (full - empty) / lists, time.monotonic() - started, time.monotonic() - assigned
    finally:
        jobs.close()


def ready(port: int) -> bool:
    """Whether a job says that it is assigned and restored."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main(lists: int, alternations: int, compression: str | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        broker = LocalKafka(folder / "kafka", heap_mb=1024)
        broker.start()
        try:
            if alternations:
                compare(broker.bootstrap, folder, lists, alternations, compression)
                spoil(broker.bootstrap, folder, lists, 3 * alternations, compression)
            restarts(broker.bootstrap, folder, lists)
        finally:
            broker.stop()


def settings_of(bootstrap: str, prefix: str, **changes: Any) -> Settings:
    """Return the settings of one run, with topics of its own."""
    made = Settings(
        kafka=bootstrap,
        buckets={"main": Bucket("main", "c2ucb", DIM, K)},
        wait_s=10,
        lateness_s=10,
        partitions=PARTITIONS,
        topic_prefix=prefix,
        timestamps="CreateTime",
        web_port=LEARN_PORT,
        join_web_port=JOIN_PORT,
    )
    found = replace(made, **changes)
    create_topics(found)
    return found


def filled(settings: Settings, lists: int, bad_every: int = 0, compression: str | None = None) -> Settings:
    """Write the logs, the same for every run."""
    halves = [range(PARTITIONS // 2), range(PARTITIONS // 2, PARTITIONS)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(fill, [(settings, lists, half, bad_every, compression) for half in halves])
    return settings


def note(runs: dict[str, list[Measured]], name: str, found: Measured) -> None:
    """Keep what one run took, and say it at once: the whole takes minutes."""
    runs.setdefault(name, []).append(found)
    print(
        f"# {name}: {found.rate:.0f} impressions/s, {found.cpu_s:.2f} CPU s/100000, {found.memory_mb:.0f} MB",
        flush=True,
    )


def installed() -> dict[str, str]:
    """Return the frameworks to compare with, and in which Python each is; say which are missing."""
    found = {name: python_with(name) for name in SCRIPTS}
    for name in (name for name, python in found.items() if python is None):
        print(f"# {name} is not installed: make bench installs it in .venv/peers", flush=True)
    return {name: python for name, python in found.items() if python is not None}


def compare(bootstrap: str, folder: Path, lists: int, alternations: int, compression: str | None) -> None:
    """Let ours and theirs take turns, and print medians and ratios."""
    runs: dict[str, list[Measured]] = {}
    frameworks = installed()
    for turn in range(alternations):
        for client in ("kafka-python", "confluent"):
            made = settings_of(bootstrap, f"{client}-{turn}-", kafka_client=client)
            settings = filled(made, lists, compression=compression)
            note(runs, f"ours-{client}", run_jobs(settings, folder, lists))
        for name, loop in (("kafka-python-loop", kafka_python_loop), ("confluent-fastavro-loop", confluent_loop)):
            with multiprocessing.get_context("spawn").Pool(1) as pool:  # the logs of the last run, once more
                note(runs, name, pool.apply(loop, (settings, lists)))
        few = min(lists, FRAMEWORK_LISTS)
        settings = filled(settings_of(bootstrap, f"frameworks-{turn}-"), few, compression=compression)
        for name, python in frameworks.items():
            place = folder / f"{name}-{turn}"
            place.mkdir()
            note(runs, f"plain-{name}", run_framework(python, name, settings, place, few))
    medians = {name: Measured(*map(median, zip(*found, strict=True))) for name, found in runs.items()}
    for name, found in medians.items():
        for value, unit in zip(found, ("impressions/s", "CPU s/100000", "MB"), strict=True):
            print(f"{name} {value:.3g} {unit}", flush=True)
    pairs = [("ours-kafka-python", "kafka-python-loop"), ("ours-confluent", "confluent-fastavro-loop")]
    for ours, theirs in [*pairs, *(("ours-kafka-python", f"plain-{name}") for name in frameworks)]:
        for what in ("rate", "cpu_s", "memory_mb"):
            ratio = getattr(medians[ours], what) / getattr(medians[theirs], what)
            print(f"{ours}_{what}_times_{theirs} {ratio:.2f} ratio", flush=True)


def spoil(bootstrap: str, folder: Path, lists: int, pairs: int, compression: str | None) -> None:
    """Let logs with and without bad records take turns, each kind the first in every second pair, and print ratios.

    The join has a core of its own, so that in each turn the same processes share one.
    """
    runs: dict[str, list[Measured]] = {}
    bench = psutil.Process()
    for turn in range(pairs):
        for bad_every in (100, 0) if turn % 2 else (0, 100):
            settings = filled(settings_of(bootstrap, f"spoilt-{bad_every}-{turn}-"), lists, bad_every, compression)
            for one in (bench, *bench.children(recursive=True)):
                keep_to(one, {0})
            note(runs, "1%-bad" if bad_every else "none-bad", run_jobs(settings, folder, lists, apart=True))
            for one in (bench, *bench.children(recursive=True)):
                keep_to(one, {0, 1})
            delete_topics(settings)
    outside = max(0, int(binom.ppf(0.025, pairs, 0.5)) - 1)  # so few lie on one side of the truth in 1 of 40 runs
    for what in ("rate", "cpu_s"):
        turns = zip(runs["1%-bad"], runs["none-bad"], strict=True)
        ratios = sorted(getattr(bad, what) / getattr(good, what) for bad, good in turns)
        name = f"{what}_with_1%_bad_times_without"
        print(f"{name} {median(ratios):.3f} ratio")
        print(f"{name}_least {ratios[outside]:.3f} ratio")
        print(f"{name}_most {ratios[-1 - outside]:.3f} ratio", flush=True)


def restarts(bootstrap: str, folder: Path, lists: int) -> None:
    """Kill and restart joins with open lists: one that the group has to give up first, and static members."""
    for client, name in (("kafka-python", None), ("kafka-python", "join-1"), ("confluent", "join-1")):
        prefix = f"open-{client}-{name}-"
        settings = settings_of(bootstrap, prefix, wait_s=86_000.0, group_instance_id=name, kafka_client=client)
        (folder / prefix).mkdir()
        memory, seconds, assigned = restart(filled(settings, lists), folder / prefix, lists)
        who = f"{client}_static_member" if name else client
        print(f"join_process_growth_{client} {memory:.0f} B/open list")
        print(f"restart_with_open_lists_{who} {seconds:.3g} s/{lists}")
        print(f"restart_with_open_lists_{who}_since_assigned {assigned:.3g} s/{lists}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:] + ["300000", "3", "none"][len(sys.argv) - 1 :]
    main(int(words[0]), int(words[1]), None if words[2] == "none" else words[2])
