"""How many data records lie between a position and an end.

Offsets are no records: transaction markers take some, and compaction leaves gaps. So the records themselves are looked
at: all of them when they are few, else some, which tell how dense the rest is. What was counted once is remembered
while the position stays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka import KafkaConsumer, TopicPartition

from streams.lag.facts import Unread

FEW = 500  # up to so many offsets are counted one by one, and so many records stand for more
SAMPLE, IN_ALL = 50, 10_000  # fewer when there are many such partitions, which would cost seconds
SAMPLE_BYTES = 1 << 20
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Counted:
    """The records of a log from ``start`` up to ``upto``."""

    log: str  # the topic's id; "" if it compacts
    start: int
    upto: int
    records: int = 0
    size: int = 0  # bytes of their values
    first_ms: int | None = None
    whole: bool = False  # nothing comes between ``upto`` and the end: the tail was compacted away

    def enough(self, end: int, sample: int = FEW) -> bool:
        """Return whether there is no need to read more on the way to ``end``, where ``sample`` records tell of many."""
        if self.upto >= end or self.whole:
            return True
        deep = end - self.start > FEW
        return self.records >= (sample if deep else FEW) or self.size >= SAMPLE_BYTES

    def unread(self, end: int) -> Unread:
        """Return what lies before ``end``; beyond what was counted the rest is taken to be as dense.

        >>> Counted("t", 10, 60, records=25, first_ms=1000).unread(110)
        Unread(records=50, exact=False, first_ms=1000)
        """
        if self.upto >= end or self.whole:
            return Unread(self.records, True, self.first_ms)
        dense = self.records / (self.upto - self.start) if self.upto > self.start else 1.0
        return Unread(self.records + round(dense * (end - self.upto)), False, self.first_ms)


class RecordCounter:
    """Counts what is unread, and its oldest time stamp, with a consumer of its own that reads committed records."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._known: dict[TopicPartition, Counted] = {}

    def unread(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], lasting: Mapping[str, str]
    ) -> dict[TopicPartition, Unread]:
        """Return how many records lie before each partition's end, and the time stamp of the first.

        ``lasting`` has the ids of the topics whose records stay as they are; others are counted again each time.
        """
        counted = {}
        for partition, start in starts.items():
            log = lasting.get(partition.topic, "")
            known = self._known.get(partition)
            same = known is not None and log and (known.log, known.start) == (log, start)
            counted[partition] = known if known and same else Counted(log, start, start)
        deep = sum(ends[partition] - tally.start > FEW for partition, tally in counted.items())
        sample = min(FEW, max(SAMPLE, IN_ALL // max(deep, 1)))
        todo = {partition: tally for partition, tally in counted.items() if not tally.enough(ends[partition], sample)}
        self._known = counted | (count(self._consumer, todo, ends, sample=sample) if todo else {})
        return {partition: tally.unread(ends[partition]) for partition, tally in self._known.items()}

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()


def count(
    consumer: KafkaConsumer,
    todo: Mapping[TopicPartition, Counted],
    ends: Mapping[TopicPartition, int],
    *,
    sample: int = FEW,
    silence_s: float = 1.0,
) -> dict[TopicPartition, Counted]:
    """Return counts that go further, up to the ends or to where it is enough; a silent broker gives less, for now."""
    consumer.assign(list(todo))
    tallies = dict(todo)
    for partition, tally in tallies.items():
        consumer.seek(partition, tally.upto)
    waiting = set(tallies)
    moved_at = time.monotonic()
    give_up_at = moved_at + PATIENCE_S
    while waiting and time.monotonic() < min(give_up_at, moved_at + silence_s):
        batches = consumer.poll(timeout_ms=20, max_records=SAMPLE)
        for partition, batch in batches.items():
            inside = [record for record in batch if record.offset < ends[partition]] if partition in waiting else []
            if inside:
                tally, size = tallies[partition], sum(len(record.value or b"") for record in inside)
                first_ms = int(inside[0].timestamp) if tally.first_ms is None else tally.first_ms
                records = tally.records + len(inside)
                tallies[partition] = replace(tally, records=records, size=tally.size + size, first_ms=first_ms)
        for partition in waiting & batches.keys() if batches else list(waiting):  # without records there may be markers
            position = consumer.position(partition)
            if position != tallies[partition].upto:
                tallies[partition], moved_at = replace(tallies[partition], upto=position), time.monotonic()
            if tallies[partition].enough(ends[partition], sample):
                waiting.remove(partition)
                # A pause would do, but kafka-python 3.0.12 never again hands out what it holds of a paused partition.
                consumer.seek(partition, ends[partition])
    for partition in waiting:
        # Past a tail that was compacted away no record comes and the position stays: what was counted is all there is.
        # Of other logs it is a broker that takes its time, and the next look goes on.
        if not todo[partition].log and consumer.highwater(partition) is not None and time.monotonic() < give_up_at:
            tallies[partition] = replace(tallies[partition], whole=True)
    consumer.assign([])
    return tallies
