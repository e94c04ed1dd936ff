"""Logged topics in, models out: relearn from an archive or from Kafka, with the deployed parameters or others."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from learner import Bandit
from streams.join import Ledger
from streams.logs import Archive, ArchiveSource, LogSource, Range, RangeError
from streams.logs.job import KafkaSource
from streams.replay.job.begin import begin, complete
from streams.replay.job.part import Interrupted, Part, PartReplay, ReplayError, ReplayPlan
from streams.settings import EVENTS, Settings

__all__ = ["Interrupted", "ReplayError", "Replayed", "open_source", "plan_of", "replay"]

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
Say = Callable[[int, int], None]  # offsets passed, of how many


@dataclass(slots=True)
class Replayed:
    """What a replay gave."""

    models: dict[str, Bandit]
    plan: ReplayPlan  # that was carried out: one that went on ends where it would have ended
    ledgers: dict[int, Ledger]  # by partition; empty for a replay of samples
    passed: int
    lists: int
    rows: int
    refused: int
    reason: str
    seconds: float
    notes: list[str] = field(default_factory=list)


def open_source(source: str, settings: Settings) -> LogSource:
    """Return the logs at ``kafka``, ``kafka://host:port`` or a directory."""
    if source == "kafka":
        return KafkaSource(settings)
    if source.startswith("kafka://"):
        return KafkaSource(replace(settings, kafka=source.removeprefix("kafka://")))
    return ArchiveSource(Archive.open(source))


def plan_of(
    source: LogSource,
    settings: Settings,
    *,
    samples: bool | None = None,
    only: Sequence[str] = (),
    within: Range | None = None,
    finish: bool = True,
    changes: Mapping[str, Any] | None = None,
) -> tuple[ReplayPlan, list[str]]:
    """Return what to replay, and what should be said about it beforehand.

    Parameters
    ----------
    samples
        Replay samples instead of raw events; None takes events when they are there.
    only
        Names of the buckets to learn; by default all.
    within
        The range of the logs.
    finish
        Close the lists that are still open at the end of raw events.
    changes
        Parameters to learn with instead of the deployed ones, such as ``{"algorithm": "c2ucb", "alpha": 0.1}``.
    """
    unknown = sorted(set(only) - set(settings.buckets))
    if unknown or not settings.buckets:
        known = ", ".join(settings.buckets) or "none"
        raise ReplayError(f"no bucket {', '.join(unknown) or 'to learn'} in the settings; there: {known}")
    if samples is None:
        samples = not all(source.has(topic) for topic in EVENTS)
    topics = ("samples",) if samples else EVENTS
    missing = [topic for topic in topics if not source.has(topic)]
    if missing:
        raise ReplayError(f"{source.where()} has no {' and no '.join(missing)}")
    chosen = {name: bucket for name, bucket in settings.buckets.items() if not only or name in only}
    changed = {name: replace(bucket, **changes or {}) for name, bucket in chosen.items()}
    settings = replace(settings, buckets={**settings.buckets, **changed})
    notes: list[str] = []
    partitions = {topic: source.partitions(topic) for topic in topics}
    if len(set(partitions.values())) > 1:
        raise ReplayError(f"impressions and clicks must have as many partitions, got {partitions}")
    wanted = within or Range()
    ranges = {
        (topic, number): wanted.of(source, topic, number, notes)
        for topic in topics
        for number in range(partitions[topic])
    }
    if all(start == stop for start, stop in ranges.values()):
        raise RangeError(f"nothing to replay: {' and '.join(topics)} on {source.where()} have no record in {wanted}")
    archive = source.archive.path if isinstance(source, ArchiveSource) else None
    if isinstance(source, KafkaSource):
        settings = replace(settings, kafka=source.settings.kafka)
    ids = tuple(source.topic_id(topic) for topic in topics)
    return ReplayPlan(settings, changed, topics, ranges, ids, archive, finish, wanted), notes


def replay(
    plan: ReplayPlan, *, out: Path | None = None, readers: int = 1, say: Say = lambda passed, total: None
) -> Replayed:
    """Carry out a plan; with ``out``, an interrupted replay goes on from there, also if the logs have grown since.

    Each partition is replayed by itself and the sums are added up in the end, so the number of ``readers`` (processes)
    and the order in which they work change nothing, not one bit.
    """
    begun = time.monotonic()
    numbers = sorted({number for _, number in plan.ranges})
    with TemporaryDirectory() as spare:
        folder = out or Path(spare)
        folder.mkdir(parents=True, exist_ok=True)
        plan, notes = begin(plan, folder)
        files = {number: folder / f"partition-{number}.replay" for number in numbers}
        before = sum(Part.load(file, plan).passed for file in files.values())
        with stop_flag() as stopping:
            if readers > 1 and len(numbers) > 1:
                most = min(readers, len(numbers), os.cpu_count() or 1)  # more would only wait for each other
                parts = _in_processes(plan, files, most, say, stopping)
            else:
                parts = _one_by_one(plan, files, say, stopping)
        complete(plan, folder)
    models = {name: bucket.model() for name, bucket in plan.buckets.items()}
    for part in parts.values():
        for name, model in part.models.items():
            models[name].merge(model)
    reasons = [part.reason for part in parts.values() if part.reason]
    return Replayed(
        models,
        plan,
        {number: part.ledger for number, part in parts.items()} if len(plan.topics) > 1 else {},
        passed=sum(part.passed for part in parts.values()) - before,
        lists=sum(part.lists for part in parts.values()),
        rows=sum(part.rows for part in parts.values()),
        refused=sum(part.refused for part in parts.values()),
        reason=reasons[0] if reasons else "",
        seconds=time.monotonic() - begun,
        notes=notes,
    )


def _one_by_one(plan: ReplayPlan, files: Mapping[int, Path], say: Say, stopping: Callable[[], bool]) -> dict[int, Part]:
    total, parts, done = plan.total(), {}, 0
    for number, file in files.items():

        def add(passed: int, so_far: int = done) -> None:
            say(so_far + passed, total)

        parts[number] = PartReplay(plan, number, file).run(add, stopping)
        done += parts[number].passed
    return parts


def _in_processes(
    plan: ReplayPlan, files: Mapping[int, Path], readers: int, say: Say, stopping: Callable[[], bool]
) -> dict[int, Part]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads of BLAS half
    passed, stop = context.Array("q", max(files) + 1), context.Event()
    total = plan.total()
    with _one_thread_each(), ProcessPoolExecutor(readers, context, _prepare, (passed, stop)) as pool:
        jobs: set[Future[None]] = {pool.submit(_work, plan, number, file) for number, file in files.items()}
        try:
            while jobs:
                ready, jobs = wait(jobs, timeout=0.2, return_when=FIRST_COMPLETED)
                say(sum(passed[:]), total)
                if stopping():
                    stop.set()
                for job in ready:
                    job.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return {number: Part.load(file, plan) for number, file in files.items()}


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile do their products in one thread, since the others have the cores."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: os.environ.get(name, "1") for name in _THREADS})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


_shared: Any = None


def _prepare(passed: Any, stop: Any) -> None:
    global _shared
    _shared = passed, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells every process; the first one decides


def _work(plan: ReplayPlan, number: int, file: Path) -> None:
    passed, stop = _shared

    def say(offsets: int) -> None:
        passed[number] = offsets

    PartReplay(plan, number, file).run(say, stop.is_set)


@contextmanager
def stop_flag() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C or SIGTERM came, which are not raised meanwhile."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event.is_set
        return
    before = {number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
