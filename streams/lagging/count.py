"""Positions and ends in, how many data records lie between them out.

Offsets are no records: transaction markers take some, and compaction leaves gaps. So the records themselves are looked
at, a few hundred of a partition at most; what was counted once is remembered while the position stays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from streams.lagging.facts import Unread

COUNTED = 500  # so many records of a partition are counted one by one, beyond that it is an estimate


class Known(NamedTuple):
    """What was counted of a partition: from where, to where."""

    log: str
    start: int
    end: int
    unread: Unread

    def holds(self, log: str | None, start: int, end: int) -> bool:
        """Return whether it is a part of what lies between ``start`` and ``end`` of this log."""
        grown = end > self.end and self.unread.exact  # an estimate is made anew, from more records
        return (self.log, self.start) == (log, start) and (grown or end == self.end)


class RecordCounter:
    """Counts what is unread, and its oldest time stamp, with a consumer of its own that reads committed records."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._known: dict[TopicPartition, Known] = {}

    def unread(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], logs: Mapping[str, str]
    ) -> dict[TopicPartition, Unread]:
        """Return how many records lie before each partition's end, and the time stamp of the first.

        ``logs`` has the ids of the topics whose records stay as they are; others are counted again each time.
        """
        todo, before = dict[TopicPartition, int](), dict[TopicPartition, Unread]()
        for place, start in starts.items():
            known = self._known.get(place)
            before[place] = Unread(0, True, None)
            if known is not None and known.holds(logs.get(place.topic), start, ends[place]):
                before[place], start = known.unread, known.end  # only what has come since
            if start < ends[place]:
                todo[place] = start
        more = count(self._consumer, todo, {place: ends[place] for place in todo}) if todo else {}
        found = {}
        for place, start in starts.items():
            found[place] = added(before[place], more[place]) if place in more else before[place]
            self._known[place] = Known(logs.get(place.topic, ""), start, ends[place], found[place])
        return found

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()


def added(first: Unread, then: Unread) -> Unread:
    """Return two counts as one.

    >>> added(Unread(2, True, 1000), Unread(3, False, 5000))
    Unread(records=5, exact=False, first_ms=1000)
    """
    first_ms = then.first_ms if first.first_ms is None else first.first_ms
    return Unread(first.records + then.records, first.exact and then.exact, first_ms)


def count(
    consumer: KafkaConsumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    most: int = COUNTED,
    patience_s: float = 5.0,
) -> dict[TopicPartition, Unread]:
    """Count records from starts to ends; after ``most`` of them the rest is taken to be as dense as they were."""
    consumer.assign(list(starts))
    for place, start in starts.items():
        consumer.seek(place, start)
    records, first, at = dict.fromkeys(starts, 0), dict[TopicPartition, int](), dict(starts)
    waiting, give_up_at, moved_at = set(starts), time.monotonic() + patience_s, time.monotonic()
    while waiting and time.monotonic() < min(give_up_at, moved_at + 1.0):
        for place, batch in consumer.poll(timeout_ms=20, max_records=most).items():
            inside = [record for record in batch if record.offset < ends[place]] if place in waiting else []
            if inside:
                first.setdefault(place, int(inside[0].timestamp))
                records[place] += len(inside)
        for place in list(waiting):
            position = consumer.position(place)
            if position != at[place]:
                at[place], moved_at = position, time.monotonic()
            if position >= ends[place] or records[place] >= most:
                waiting.remove(place)
                # A pause would do, but kafka-python 3.0.12 never again hands out what it holds of a paused partition.
                consumer.seek(place, ends[place])
    found = {}
    for place, start in starts.items():
        # Past a tail that was compacted away no record comes, and the position stays: what was counted is all there is.
        silent = place in waiting and consumer.highwater(place) is not None and time.monotonic() < give_up_at
        if at[place] >= ends[place] or silent:
            found[place] = Unread(records[place], True, first.get(place))
        else:
            dense = records[place] / (at[place] - start) if at[place] > start else 1.0
            rest = round(dense * (ends[place] - at[place]))
            found[place] = Unread(records[place] + rest, False, first.get(place))
    consumer.assign([])
    return found
