"""What the join has written, counted by the partition of the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from schemas.codec import SchemaError, decode
from schemas.records import DeadLetter, SampleBatch
from streams.ledger.learned import SamplesLog
from streams.ledger.lists import ListName, names
from streams.logs import LogBlock, LogSource
from streams.settings import EVENTS

OUTPUTS = ("samples", "dead-letters", "late-clicks")


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
    flow: SamplesLog = field(default_factory=SamplesLog)  # the same samples, by their own partition

    def of(self, partition: int) -> BucketCount:
        """Return what the samples say about all buckets of a partition."""
        found = [count for (number, _), count in self.samples.items() if number == partition]
        return BucketCount(sum(count.lists for count in found), sum(count.corrections for count in found))

    def add(self, topic: str, partition: int, block: LogBlock) -> None:
        """Count the records of a block; what is neither samples nor a dead letter is passed over."""
        if topic == "late-clicks":
            self.late += len(block)
            return
        for record in block.records():
            try:
                found = decode(record.value or b"")
            except SchemaError:
                continue
            if isinstance(found, SampleBatch):
                count_samples([found], self.samples)
                self.flow.add(partition, record.offset, found)
            elif isinstance(found, DeadLetter):
                self.dead[found.topic, found.partition] += 1
                if found.topic.endswith("samples"):
                    self.flow.refuse(found)


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
    for topic in OUTPUTS:
        if not source.has(topic):
            continue
        begins = []
        for partition in range(source.partitions(topic)):
            source.settle(topic, partition)  # else what a commit counts may be hidden behind an open transaction
            first, end = source.bounds(topic, partition)
            begins.append(first)
            for block in source.read(topic, partition, first, end):
                written.add(topic, partition, block)
        if not any(begins):
            written.whole.add(topic)
    return written


def gaps_of(source: LogSource) -> dict[tuple[str, int], int]:
    """Count the offsets without a record in each log of events: lost ones, unless producers use transactions."""
    found = {}
    for topic in EVENTS:
        for partition in range(source.partitions(topic)):
            first, end = source.bounds(topic, partition)
            records = sum(len(block) for block in source.read(topic, partition, first, end))
            found[topic, partition] = end - first - records
    return found
