"""Logged topics in, models out: relearn from an archive or from Kafka, with the deployed parameters or others."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from learner import Bandit
from schemas.json_text import parse_json
from streams.join import Ledger
from streams.local import one_thread_each
from streams.logs import replace_file
from streams.replay.job.part import Part, replay_part
from streams.replay.plan import ReplayError, ReplayPlan

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
        plan, notes = _begin(plan, folder / "replay.json")
        files = {number: folder / f"partition-{number}.replay" for number in numbers}
        before = sum(Part.load(file, plan).passed for file in files.values())
        with stop_flag() as stopping:
            if readers > 1 and len(numbers) > 1:
                most = min(readers, len(numbers), os.cpu_count() or 1)  # more would only wait for each other
                parts = _in_processes(plan, files, most, say, stopping)
            else:
                parts = _one_by_one(plan, files, say, stopping)
        _save(folder / "replay.json", plan, done=True)
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


def _begin(plan: ReplayPlan, file: Path) -> tuple[ReplayPlan, list[str]]:
    """Return the plan to carry out in the folder of ``file``, and what should be said about it.

    Logs that are written to end elsewhere at every look, so the directory keeps where they ended when the replay began:
    what was interrupted goes on up to there. After a finished replay a new one begins, unless it would be the same.
    """
    folder, saved = file.parent, _load(file)
    if saved is not None and not saved["done"]:
        ranges = saved["ranges"]
        grown = ranges.keys() == plan.ranges.keys() and all(
            stop <= plan.ranges[log][1] for log, (_, stop) in ranges.items()
        )
        if saved["asked"] != plan.asked or not grown:
            raise ReplayError(
                f"{folder} holds an unfinished replay of something else (another source, range or parameters); take "
                f"another --out, or delete {file} to begin anew"
            )
        more = sum(plan.ranges[log][1] - stop for log, (_, stop) in ranges.items())
        notes = [f"the replay in {folder} goes on; it ends before the {more:,} records that came since"] if more else []
        return replace(plan, ranges=ranges), notes
    if saved is None or (saved["asked"], saved["ranges"]) != (plan.asked, plan.ranges):
        for part in folder.glob("partition-*.replay"):
            part.unlink()
        _save(file, plan, done=False)
    return plan, []


def _save(file: Path, plan: ReplayPlan, *, done: bool) -> None:
    ranges = [[*log, *bounds] for log, bounds in plan.ranges.items()]
    replace_file(file, json.dumps({"asked": plan.asked, "ranges": ranges, "done": done}).encode())


def _load(file: Path) -> dict[str, Any] | None:
    try:
        saved = parse_json(file.read_bytes())
        ranges = {(topic, number): (start, stop) for topic, number, start, stop in saved["ranges"]}
        return {"asked": saved["asked"], "ranges": ranges, "done": saved["done"]}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ReplayError(f"{file} cannot be read ({error}); delete it to begin anew") from error


def _one_by_one(plan: ReplayPlan, files: Mapping[int, Path], say: Say, stopping: Callable[[], bool]) -> dict[int, Part]:
    total, parts = plan.total(), dict[int, Part]()
    for number, file in files.items():

        def add(passed: int, done: int = sum(part.passed for part in parts.values())) -> None:
            say(done + passed, total)

        parts[number] = replay_part(plan, number, file, say=add, stopping=stopping)
    return parts


def _in_processes(
    plan: ReplayPlan, files: Mapping[int, Path], readers: int, say: Say, stopping: Callable[[], bool]
) -> dict[int, Part]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads of BLAS half
    passed, stop = context.Array("q", max(files) + 1), context.Event()
    total = plan.total()
    with one_thread_each(), ProcessPoolExecutor(readers, context, _prepare, (passed, stop)) as pool:
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


_shared: Any = None


def _prepare(passed: Any, stop: Any) -> None:
    global _shared
    _shared = passed, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells every process; the first one decides


def _work(plan: ReplayPlan, number: int, file: Path) -> None:
    passed, stop = _shared

    def say(offsets: int) -> None:
        passed[number] = offsets

    replay_part(plan, number, file, say=say, stopping=stop.is_set)


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
