"""The balance of each partition: what its ledger says, what was written and learned, and what does not add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.codec import SchemaError, decode
from schemas.records import DeadLetter, SampleBatch, Snapshot
from streams.join import Ledger
from streams.logs import LogBlock, LogSource
from streams.parameters import name_of
from streams.settings import EVENTS

OUTPUTS = ("samples", "dead-letters", "late-clicks")


class ListName(NamedTuple):
    """One list: its impression, and where that stands."""

    impression_id: str
    partition: int
    offset: int


def names(batch: SampleBatch) -> list[ListName]:
    """Return the name of each list of a batch."""
    partitions, offsets = batch.source_partitions_array.tolist(), batch.source_offsets_array.tolist()
    return list(map(ListName, batch.impression_ids, partitions, offsets))


@dataclass(frozen=True, slots=True)
class Learned:
    """How far a bucket's lists have come: into its snapshot, or not yet."""

    bucket: str
    partition: int
    snapshot: Snapshot | None
    net: int  # lists in the net of samples, below the snapshot's stamp
    refused: int  # of them, what has a dead letter
    waiting: int  # lists at or beyond the stamp that have no dead letter

    @property
    def balanced(self) -> bool:
        """Whether the snapshot has as many rounds as the samples below its stamp say.

        A bucket that was away for a while learns lists that have a dead letter from that time.
        """
        rounds = self.snapshot.rounds if self.snapshot is not None else 0
        least, most = sorted((self.net - self.refused, self.net))
        return least <= rounds <= most

    @property
    def where(self) -> str:
        """The bucket, and where its samples are."""
        return f"samples partition {self.partition}, {self.bucket}"

    def __str__(self) -> str:
        snapshot = "no snapshot"
        if self.snapshot is not None:
            snapshot = f"snapshot {name_of(self.snapshot)} of {self.snapshot.rounds} rounds"
        return f"{self.where}: {snapshot}, {self.net} lists below it, {self.refused} refused, {self.waiting} waiting"


class SampleRecord(NamedTuple):
    """The lists of one samples record, or those of it that were refused."""

    offset: int
    lists: int
    net: int  # lists added less lists taken back
    refused: bool


class SamplesLog:
    """Counts what the samples topic holds, record by record, to be compared with snapshots that come later."""

    def __init__(self) -> None:
        self._records = defaultdict[tuple[int, str], list[SampleRecord]](list)  # by partition and bucket

    def add(self, partition: int, offset: int, batch: SampleBatch, *, refused: bool = False) -> None:
        """Count a samples record, or the lists of one that have a dead letter."""
        record = SampleRecord(offset, len(batch.impression_ids), int(batch.signs_array.sum()), refused)
        self._records[partition, batch.bucket].append(record)

    def refuse(self, letter: DeadLetter) -> None:
        """Count a dead letter of a samples record: the lists in it, if they can be told."""
        try:
            self.add(letter.partition, letter.offset, decode(letter.value or b"", SampleBatch), refused=True)
        except SchemaError:
            return  # neither was it counted as samples

    def learned(self, snapshots: Mapping[str, Snapshot], buckets: Mapping[str, object]) -> list[Learned]:
        """Return how far each bucket is, as its newest snapshot tells; buckets that nobody learns are left out."""
        progress = []
        for (partition, bucket), records in sorted(self._records.items()):
            if bucket in buckets:
                snapshot = snapshots.get(bucket)
                stamp = snapshot.samples_offset if snapshot is not None else 0
                below = [record for record in records if record.offset < stamp]
                net = sum(record.net for record in below if not record.refused)
                refused = sum(record.net for record in below if record.refused)
                beyond = (record for record in records if record.offset >= stamp)
                waiting = sum(-record.lists if record.refused else record.lists for record in beyond)
                progress.append(Learned(bucket, partition, snapshot, net, refused, waiting))
        return progress


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

    samples: dict[tuple[int, str], BucketCount] = field(default_factory=lambda: defaultdict(BucketCount))
    dead: Counter[tuple[str, int]] = field(default_factory=Counter)  # by topic and partition of the event
    late: int = 0  # clicks, of all partitions
    whole: set[str] = field(default_factory=set)  # topics of which nothing was deleted, so that counts can be compared
    flow: SamplesLog = field(default_factory=SamplesLog)  # the same samples, by their own partition

    def of(self, partition: int) -> BucketCount:
        """Return what the samples say about all buckets of a partition."""
        counts = [count for (number, _), count in self.samples.items() if number == partition]
        return BucketCount(sum(count.lists for count in counts), sum(count.corrections for count in counts))

    def add(self, topic: str, partition: int, block: LogBlock) -> None:
        """Count the records of a block; what is neither samples nor a dead letter is passed over."""
        if topic == "late-clicks":
            self.late += len(block)
            return
        for record in block.records():
            try:
                event = decode(record.value or b"")
            except SchemaError:
                continue
            if isinstance(event, SampleBatch):
                self._count(event)
                self.flow.add(partition, record.offset, event)
            elif isinstance(event, DeadLetter):
                self.dead[event.topic, event.partition] += 1
                if event.topic.endswith("samples"):
                    self.flow.refuse(event)

    def _count(self, batch: SampleBatch) -> None:
        """Count lists: a correction stands in one record with both signs, a list taken back has only a −1."""
        signs = batch.signs_array
        if (signs > 0).all():
            for partition, lists in Counter(batch.source_partitions_array.tolist()).items():
                self.samples[partition, batch.bucket].lists += lists
            return
        signed = list(zip(names(batch), signs.tolist(), strict=True))
        added = Counter(name for name, sign in signed if sign > 0)
        removed = Counter(name for name, sign in signed if sign < 0)
        for name in added | removed:
            count = self.samples[name.partition, batch.bucket]
            pairs = min(added[name], removed[name])
            count.corrections += pairs
            count.lists += added[name] - pairs
            if alone := removed[name] - pairs:
                count.taken_back += alone
                count.again += alone if name in count.gone else alone - 1
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
    gaps = {}
    for topic in EVENTS:
        for partition in range(source.partitions(topic)):
            first, end = source.bounds(topic, partition)
            records = sum(len(block) for block in source.read(topic, partition, first, end))
            gaps[topic, partition] = end - first - records
    return gaps


@dataclass(slots=True)
class Audit:
    """The balance, and what is wrong with it."""

    ledgers: Mapping[int, Ledger]
    written: Written
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    learned: Sequence[Learned] = ()

    def check_committed(self, before: Mapping[int, Ledger], *, topic_prefix: str) -> None:
        """Hold what was written against the ledgers: those ``before`` counting at least, those after it at most."""
        self._check_ledgers()
        written = self.written
        for number, most in self.ledgers.items():
            least = before.get(number, Ledger())
            if "samples" in written.whole:
                count = written.of(number)
                self._check(number, "lists in samples", count.lists, least.lists, most.lists)
                self._check(number, "corrections in samples", count.corrections, least.corrections, most.corrections)
            if "dead-letters" in written.whole:
                shown = sum(written.dead[name, number] for name in {"impressions", f"{topic_prefix}impressions"})
                clicked = sum(written.dead[name, number] for name in {"clicks", f"{topic_prefix}clicks"})
                low, high = (ledger.dead_impressions + ledger.too_late for ledger in (least, most))
                self._check(number, "impressions in dead-letters", shown, low, high)
                self._check(number, "clicks in dead-letters", clicked, least.dead_clicks, most.dead_clicks)
        if "late-clicks" in written.whole:
            low, high = (sum(ledger.late for ledger in some.values()) for some in (before, self.ledgers))
            if not low <= written.late <= high:
                self.problems.append(f"late-clicks holds {written.late} clicks, the ledgers say {_range(low, high)}")

    def check_rejoined(self, gaps: Mapping[tuple[str, int], int]) -> None:
        """Hold what was written against the ledgers of the same events, joined again; open lists may be in it."""
        self._check_ledgers()
        if "samples" in self.written.whole:
            for number, ledger in self.ledgers.items():
                lists = self.written.of(number).lists
                self._check(number, "lists in samples", lists, ledger.lists, ledger.lists + ledger.open)
        for (topic, number), missing in gaps.items():
            if missing:
                self.problems.append(f"{topic} {number}: {missing} offsets have no record; were they lost?")

    def check_learned(self, learned: Sequence[Learned], *, live: bool) -> None:
        """Hold the rounds of each bucket's snapshot against the samples below its stamp; ``live``, all must be learned.

        Copied topics may have been copied at different times, so what waits there is only noted.
        """
        self.learned = learned
        for bucket in learned:
            if {"samples", "dead-letters"} <= self.written.whole and not bucket.balanced:
                self.problems.append(f"{bucket}: that is not the same")
            if bucket.waiting and live:
                self.problems.append(f"{bucket.waiting} lists of {bucket.where} are in no snapshot; see: glimpse lag")
            elif bucket.waiting:
                self.notes.append(f"{bucket.waiting} lists of {bucket.where} are in no snapshot of this copy")

    def note_incomplete(self, there: Mapping[str, bool]) -> None:
        """Note the topics that were not compared, and why: ``there`` tells which topics there are."""
        for topic in OUTPUTS:
            if topic not in self.written.whole:
                why = "its oldest records were deleted" if there[topic] else "it is not there"
                self.notes.append(f"{topic} was not compared: {why}")

    def _check_ledgers(self) -> None:
        for number, ledger in self.ledgers.items():
            if not ledger.balanced:
                counts = ", ".join(f"{name} {count}" for name, count in ledger.counts().items())
                self.problems.append(f"partition {number} does not balance: {counts}")
        for (number, bucket), count in sorted(self.written.samples.items()):
            name = f"partition {number}, {bucket}"
            if count.again:
                self.problems.append(
                    f"{name}: lists were taken back that had been taken back before, {count.again} times"
                )
            if "samples" in self.written.whole and count.taken_back > count.lists:
                self.problems.append(
                    f"{name}: {count.taken_back} lists were taken back of {count.lists} that were there"
                )

    def _check(self, number: int, what: str, count: int, low: int, high: int) -> None:
        if not low <= count <= high:
            self.problems.append(f"partition {number}: {count} {what}, the ledger says {_range(low, high)}")


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
