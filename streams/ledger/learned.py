"""The end of the flow: the lists of samples against the rounds of each bucket's snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.codec import SchemaError, decode
from schemas.records import DeadLetter, SampleBatch, Snapshot
from streams.parameters import name_of


@dataclass(slots=True)
class SampleRecord:
    """The lists of one samples record, or those of it that were refused."""

    offset: int
    lists: int
    net: int  # lists added less lists taken back


@dataclass(slots=True)
class BucketLog:
    """What one samples partition holds of one bucket."""

    records: list[SampleRecord] = field(default_factory=list)
    refused: list[SampleRecord] = field(default_factory=list)


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
        found = "no snapshot"
        if self.snapshot is not None:
            found = f"snapshot {name_of(self.snapshot)} of {self.snapshot.rounds} rounds"
        return f"{self.where}: {found}, {self.net} lists below it, {self.refused} refused, {self.waiting} waiting"


class SamplesLog:
    """Counts what the samples topic holds, record by record, to be compared with snapshots that come later."""

    def __init__(self) -> None:
        self._logs: dict[tuple[int, str], BucketLog] = {}

    def add(self, partition: int, offset: int, batch: SampleBatch) -> None:
        """Count a samples record."""
        self._of(partition, batch).records.append(_counted(offset, batch))

    def refuse(self, letter: DeadLetter) -> None:
        """Count a dead letter of a samples record: the lists in it, if they can be told."""
        try:
            batch = decode(letter.value or b"", SampleBatch)
        except SchemaError:
            return  # neither was it counted as samples
        self._of(letter.partition, batch).refused.append(_counted(letter.offset, batch))

    def _of(self, partition: int, batch: SampleBatch) -> BucketLog:
        return self._logs.setdefault((partition, batch.bucket), BucketLog())

    def learned(self, snapshots: Mapping[str, Snapshot], buckets: Iterable[str]) -> list[Learned]:
        """Return how far each bucket is, as its newest snapshot tells; buckets that nobody learns are left out."""
        known = set(buckets)
        found = []
        for (partition, bucket), log in sorted(self._logs.items()):
            if bucket in known:
                snapshot = snapshots.get(bucket)
                stamp = snapshot.samples_offset if snapshot is not None else 0
                refused = [one for one in log.refused if one.offset < stamp]
                beyond = sum(one.lists for one in log.records if one.offset >= stamp)
                beyond -= sum(one.lists for one in log.refused if one.offset >= stamp)
                net = sum(one.net for one in log.records if one.offset < stamp)
                found.append(Learned(bucket, partition, snapshot, net, sum(one.net for one in refused), beyond))
        return found


def _counted(offset: int, batch: SampleBatch) -> SampleRecord:
    return SampleRecord(offset, len(batch.impression_ids), int(batch.signs_array.sum()))
