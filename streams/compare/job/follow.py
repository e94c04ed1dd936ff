"""Reading the samples and the lost clicks of a log, each time from where the last reading ended."""

from __future__ import annotations

from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch
from streams.compare.columns import ListSums
from streams.compare.losses import LostClicks
from streams.logs import LogSource, RangeError


class SampleFollower:
    """Sums of all that a source holds, whichever kind it is."""

    def __init__(self, source: LogSource) -> None:
        self.source = source
        self.sums = ListSums()
        self.losses = LostClicks(self.sums.sample)
        self.notes: dict[str, str] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._unreadable = 0

    def read(self) -> int:
        """Take in what was added since the last time, and return how many records it was."""
        if not self.source.has("samples"):
            raise RangeError(f"{self.source.where()} has no samples, which glimpse join writes")
        return sum(self._read_topic(topic) for topic in ("late-clicks", "dead-letters", "samples"))

    def _read_topic(self, topic: str) -> int:
        if not self.source.has(topic):
            self.notes[topic] = f"{self.source.where()} has no {topic}: clicks lost there are not known"
            return 0
        taken = 0
        for partition in range(self.source.partitions(topic)):
            start, stop = self.source.bounds(topic, partition)
            at = self._next.get((topic, partition))
            if at is None and start and topic == "samples":
                place = f"{topic} {partition} on {self.source.where()}"
                self.notes[place] = f"{place} begins at offset {start}: what was before is not compared"
            for block in self.source.read(topic, partition, max(start, at or 0), stop):
                records = block.records()
                taken += len(records)
                if topic == "late-clicks":
                    self.losses.add_late(records)
                elif topic == "dead-letters":
                    self.losses.add_letters(records, partition)
                else:
                    for record in records:
                        self._add(record.value or b"")
                self._next[topic, partition] = block.next_offset  # should the source go away now, nothing counts twice
        return taken

    def _add(self, value: bytes) -> None:
        try:
            batch: SampleBatch = decode(value, SampleBatch)
        except SchemaError:
            self._unreadable += 1
            self.notes["unreadable"] = f"{self._unreadable} records of samples cannot be read, and are passed over"
            return
        self.sums.add(batch)
        self.losses.add_lists(batch)
