"""The audit: the balance of each partition's counts against the topics, and what does not add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from schemas.codec import SchemaError, decode
from schemas.records import DeadLetter, SampleBatch
from streams.join import Ledger
from streams.ledger.job.standing import join_commits
from streams.ledger.lists import ListName, names
from streams.logs import LogBlock, LogSource
from streams.replay.job import plan_of, replay
from streams.settings import EVENTS, Settings


@dataclass(slots=True)
class BucketCount:
    """What the samples of one partition's lists say about one bucket."""

    lists: int = 0  # that were learned once
    corrections: int = 0
    taken_back: int = 0  # by `glimpse unlearn`
    again: int = 0  # of those, what had been taken back before
    gone: set[ListName] = field(default_factory=set)  # the lists that were taken back


@dataclass(slots=True)
class Written:
    """What the join has written, counted by the partition of the events."""

    samples: dict[tuple[int, str], BucketCount] = field(default_factory=dict)
    dead: Counter[tuple[str, int]] = field(default_factory=Counter)  # by topic and partition of the event
    late: int = 0  # clicks, of all partitions
    whole: set[str] = field(default_factory=set)  # topics of which nothing was deleted, so that counts can be compared

    def of(self, partition: int) -> BucketCount:
        """Return what the samples say about all buckets of a partition."""
        total = BucketCount()
        for (number, _), count in self.samples.items():
            if number == partition:
                total.lists += count.lists
                total.corrections += count.corrections
                total.taken_back += count.taken_back
                total.again += count.again
        return total


@dataclass(slots=True)
class Audit:
    """The balance, and what is wrong with it."""

    ledgers: Mapping[int, Ledger]
    written: Written
    gaps: dict[tuple[str, int], int]  # offsets without a record in the logs of events
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def count_samples(batches: Iterable[SampleBatch], counts: dict[tuple[int, str], BucketCount]) -> None:
    """Count lists: a correction stands in one record with both signs, a list taken back has only a −1."""
    for batch in batches:
        signs, found = batch.signs_array, names(batch)
        if (signs > 0).all():
            partitions, lists = np.unique(batch.source_partitions_array, return_counts=True)
            for partition, number in zip(partitions.tolist(), lists.tolist(), strict=True):
                counts.setdefault((partition, batch.bucket), BucketCount()).lists += number
            continue
        added = Counter(name for name, sign in zip(found, signs.tolist(), strict=True) if sign > 0)
        removed = Counter(name for name, sign in zip(found, signs.tolist(), strict=True) if sign < 0)
        for name in added | removed:
            count = counts.setdefault((name.partition, batch.bucket), BucketCount())
            pairs = min(added[name], removed[name])
            count.corrections += pairs
            count.lists += added[name] - pairs
            if alone := removed[name] - pairs:
                count.taken_back += alone
                count.again += alone - (name not in count.gone)
                count.gone.add(name)


def count_written(source: LogSource) -> Written:
    """Count what the join has written so far."""
    written = Written()
    for topic in ("samples", "dead-letters", "late-clicks"):
        if not source.has(topic):
            continue
        begins = []
        for partition in range(source.partitions(topic)):
            source.settle(topic, partition)  # else what a commit counts may be hidden behind an open transaction
            first, end = source.bounds(topic, partition)
            begins.append(first)
            for block in source.read(topic, partition, first, end):
                _count(topic, block, written)
        if not any(begins):
            written.whole.add(topic)
    return written


def _count(topic: str, block: LogBlock, written: Written) -> None:
    if topic == "late-clicks":
        written.late += len(block)
        return
    for record in block.records():
        try:
            found = decode(record.value or b"")
        except SchemaError:
            continue
        if isinstance(found, SampleBatch):
            count_samples([found], written.samples)
        elif isinstance(found, DeadLetter):
            written.dead[found.topic, found.partition] += 1


def gaps_of(source: LogSource) -> dict[tuple[str, int], int]:
    """Count the offsets without a record in each log of events: lost ones, unless producers use transactions."""
    found = {}
    for topic in EVENTS:
        for partition in range(source.partitions(topic)):
            first, end = source.bounds(topic, partition)
            records = sum(len(block) for block in source.read(topic, partition, first, end))
            found[topic, partition] = end - first - records
    return found


def audit(source: LogSource, settings: Settings) -> Audit:
    """Balance a running deployment, the directory of an embedded runner, or an archive of all topics.

    Where a join has committed, its ledger must agree with what it has written. An archive has no commits, so its events
    are joined again: the samples must hold every list that was due and none that the events do not give.
    """
    before = join_commits(source)
    if not before:
        return _rejoined(source, settings)
    written = count_written(source)
    after = join_commits(source)  # the jobs go on meanwhile
    ledgers = {number: commit.ledger for number, commit in after.items()}
    result = Audit(ledgers, written, {})
    _unbalanced(result)
    _overdrawn(result)
    least = {number: commit.ledger for number, commit in before.items()}
    for number, most in ledgers.items():
        low = least.get(number, Ledger())
        if "samples" in written.whole:
            found = written.of(number)
            _between(result, number, "lists in samples", found.lists, low.lists, most.lists)
            _between(result, number, "corrections in samples", found.corrections, low.corrections, most.corrections)
        if "dead-letters" in written.whole:
            prefix = settings.topic_prefix
            shown = sum(written.dead[name, number] for name in {"impressions", f"{prefix}impressions"})
            clicked = sum(written.dead[name, number] for name in {"clicks", f"{prefix}clicks"})
            dead = low.dead_impressions + low.too_late, most.dead_impressions + most.too_late
            _between(result, number, "impressions in dead-letters", shown, *dead)
            _between(result, number, "clicks in dead-letters", clicked, low.dead_clicks, most.dead_clicks)
    if "late-clicks" in written.whole:
        bounds = [sum(ledger.late for ledger in some.values()) for some in (least, ledgers)]
        if not bounds[0] <= written.late <= bounds[1]:
            result.problems.append(f"late-clicks holds {written.late} clicks, the ledgers say {_range(*bounds)}")
    _incomplete(result, source)
    return result


def _rejoined(source: LogSource, settings: Settings) -> Audit:
    plan, notes = plan_of(source, settings, samples=False, finish=False)
    done = replay(plan)
    result = Audit(done.ledgers, count_written(source), gaps_of(source), notes=notes)
    _unbalanced(result)
    _overdrawn(result)
    for number, ledger in done.ledgers.items():
        if source.has("samples") and "samples" in result.written.whole:
            found, most = result.written.of(number).lists, ledger.lists + ledger.open
            _between(result, number, "lists in samples", found, ledger.lists, most)
    for (topic, number), missing in result.gaps.items():
        if missing:
            result.problems.append(f"{topic} {number}: {missing} offsets have no record; were they lost?")
    _incomplete(result, source)
    return result


def _unbalanced(result: Audit) -> None:
    for number, ledger in result.ledgers.items():
        if not ledger.balanced:
            counts = ", ".join(f"{name} {count}" for name, count in ledger.counts().items())
            result.problems.append(f"partition {number} does not balance: {counts}")


def _overdrawn(result: Audit) -> None:
    for (number, bucket), count in sorted(result.written.samples.items()):
        name = f"partition {number}, {bucket}"
        if count.again:
            result.problems.append(
                f"{name}: lists were taken back that had been taken back before, {count.again} times"
            )
        if "samples" in result.written.whole and count.taken_back > count.lists:
            result.problems.append(f"{name}: {count.taken_back} lists were taken back of {count.lists} that were there")


def _between(result: Audit, number: int, what: str, found: int, low: int, high: int) -> None:
    if not low <= found <= high:
        result.problems.append(f"partition {number}: {found} {what}, the ledger says {_range(low, high)}")


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _incomplete(result: Audit, source: LogSource) -> None:
    for topic in ("samples", "dead-letters", "late-clicks"):
        if topic not in result.written.whole:
            there = "its oldest records were deleted" if source.has(topic) else "it is not there"
            result.notes.append(f"{topic} was not compared: {there}")
