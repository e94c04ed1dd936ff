"""Samples in, snapshots out: one learner per bucket, fed with one partition of the samples topic (pure)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from learner import Samples
from schemas.codec import SchemaError, decode, encode
from schemas.records import BucketStamp, Candidate, DeadLetter, Progress, SampleBatch, Snapshot
from streams.learn.bucket_state import BucketState, Durable, SamplesPartition, standing_of
from streams.learn.lists import SampleColumns, learn_lists, read_sample_columns, samples_of, some_lists
from streams.logs import LogRecord, cut_to_fit
from streams.parameters import CANDIDATE, key_of, split_snapshot, take_snapshot
from streams.settings import Bucket, Topics

ROWS_AT_ONCE = 4096


class Round(NamedTuple):
    """What must become durable together."""

    snapshots: list[Snapshot]
    progress: Progress
    refused: list[DeadLetter]
    candidates: list[Snapshot]  # epochs that have not caught up
    promoted: list[str]  # buckets whose candidate is now the snapshot

    def records(self, topics: Topics) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Yield the records of the round's transaction: topic, key and value."""
        for snapshot in self.snapshots:
            for chunk in split_snapshot(snapshot):
                yield topics.parameters, key_of(chunk), encode(chunk)
                if snapshot.bucket in self.promoted:  # so that compaction deletes the candidate
                    yield topics.parameters, key_of(chunk, CANDIDATE), None
        for candidate in self.candidates:
            for chunk in split_snapshot(candidate):
                yield topics.parameters, key_of(chunk, CANDIDATE), encode(Candidate(encode(chunk)))
        yield topics.parameters, f"@samples-{self.progress.samples_partition}".encode(), encode(self.progress)
        for letter in self.refused:
            yield topics.dead_letters, f"{letter.topic}-{letter.partition}".encode(), encode(cut_to_fit(letter))


class PartitionLearner:
    """Learns a samples partition record by record; its state is a function of the set of samples before an offset.

    What was published is gone on from. ``states`` are at the head of the log: each has learned all before
    ``next_offset``. A new bucket, one that was held, or a new epoch is ``behind``: ``catch_up`` is given the log from
    its own stamp on a second time, so that nobody at the head waits for it. A new epoch is a candidate until it has
    caught up; then it takes the place of the older one, which serves and learns on until then. A list that cannot be
    learned becomes a dead letter and changes no sum, a correction as a whole; other lists of its record are learned.
    A shadow learns its host's samples beside it, with sums of its own.

    ``known`` is the newest of what was published; without progress all is read from the oldest stamp on, by ``apply``.
    ``log_start`` is the first offset that the log still has.
    """

    def __init__(
        self, buckets: Mapping[str, Bucket], log: SamplesPartition, known: Durable | None = None, *, log_start: int = 0
    ) -> None:
        self.log = log
        known = known or Durable()
        ours = {number: at for number, at in known.progress.items() if at.samples_topic_id == log.topic_id}
        self.known = replace(known, progress=ours)  # without that on an older topic of the same name
        self.counts: Counter[str] = Counter()  # by the names of COUNTS in job/health.py
        self.dead_letters: list[DeadLetter] = []
        self.buckets = buckets
        self._shadows = [name for name, bucket in buckets.items() if bucket.host is not None]
        standings = {
            name: standing_of(bucket, log, self.known, log_start=log_start) for name, bucket in buckets.items()
        }
        self.states = {name: standing.head for name, standing in standings.items() if standing.head is not None}
        self.behind = {name: standing.behind for name, standing in standings.items() if standing.behind is not None}
        self.held = {name: standing.held for name, standing in standings.items() if standing.held}
        at = self.known.progress.get(log.partition)
        stamps = [state.stamp for state in self.states.values()]
        self.next_offset = max(at.next_offset if at is not None else min(stamps, default=0), log_start)
        self._refused_to = at.refused_to if at is not None else 0  # below, letters are written
        for state in self.states.values():
            state.letters_from = self._refused_to

    def apply(self, records: Iterable[LogRecord]) -> None:
        """Learn records at the head, in the order of the log; those before ``next_offset`` are skipped."""
        for record in records:
            self.counts["records"] += 1
            if record.offset < self.next_offset:
                self.counts["repeated"] += 1
                continue
            self.next_offset = record.offset + 1
            try:
                self._take(record)
            except (SchemaError, ValueError) as error:
                self._refuse(record, str(error), letters_from=self._refused_to)
        for state in self.states.values():
            self._learn(state)

    def catch_up(self, records: Iterable[LogRecord], *, read_to: int) -> None:
        """Learn what is ``behind``, given all records from ``behind_from`` on up to ``read_to``; beyond the head none.

        What nobody behind the head learns is passed over: the head has judged it.
        """
        stop = min(read_to, self.next_offset)
        for record in records:
            try:
                batch = read_sample_columns(record.value or b"")
            except SchemaError:
                continue
            for state in self.behind.values():
                if state.bucket.learns_from == batch.bucket and state.stamp <= record.offset < stop:
                    try:
                        self._wait(state, record, batch)
                    except ValueError as error:
                        self._refuse(record, str(error), letters_from=state.letters_from)
        for state in self.behind.values():
            self._learn(state)
            if state.stamp < stop:
                state.stamp, state.changed = stop, True

    @property
    def behind_from(self) -> int | None:
        """The first offset that somebody behind the head has to learn; None when there is nobody."""
        return min((state.stamp for state in self.behind.values()), default=None)

    def _take(self, record: LogRecord) -> None:
        if record.value is None:
            raise ValueError("the record is empty; a sample batch was expected")
        batch = read_sample_columns(record.value)
        for shadow in self._shadows:
            state = self.states.get(shadow)
            if state is not None and state.bucket.host == batch.bucket and record.offset >= state.stamp:
                state.waiting.append((record, batch))
        state = self.states.get(batch.bucket)
        if state is None and batch.bucket in self.buckets:
            return  # learned when it catches up, or when its settings are mended
        if state is None:
            known = ", ".join(sorted(self.buckets)) or "none"
            raise ValueError(
                f"bucket {batch.bucket!r} is not learned on partition {self.log.partition} of {self.log.partitions} "
                f"(there: {known}); check the buckets in the settings and the key of the record"
            )
        if record.offset < state.stamp:
            self.counts["repeated"] += 1
            return
        self._wait(state, record, batch)

    def _wait(self, state: BucketState, record: LogRecord, batch: SampleColumns) -> None:
        if batch.dim != state.bucket.dim and state.model.dim:
            raise ValueError(f"contexts have {batch.dim} features, bucket {batch.bucket!r} has {state.bucket.dim}")
        state.waiting.append((record, batch))

    def _learn(self, state: BucketState) -> None:
        """Add what waits, some records at once; should something in them be refused, record by record."""
        waiting, state.waiting = state.waiting, []
        for some in runs_of(waiting):
            try:
                samples = Samples.concat([samples_of(batch) for _, batch in some])
                state.model.learn(samples)
                self._count(state, len(samples), samples.rows)
            except ValueError:
                for record, _ in some:
                    self._learn_alone(state, record)

    def _learn_alone(self, state: BucketState, record: LogRecord) -> None:
        batch = decode(record.value or b"", SampleBatch)
        refused, lists = learn_lists(state.model, batch), len(batch.impression_ids)
        if refused:
            bad = some_lists(batch, list(refused))
            reason = f"{len(refused)} of {lists} lists, the first since {next(iter(refused.values()))}"
            if state.bucket.host is None:  # what a shadow alone cannot learn is no list that was lost
                self._refuse(record._replace(value=encode(bad)), reason, letters_from=state.letters_from)
            batch = some_lists(batch, [number for number in range(lists) if number not in refused])
        if batch.impression_ids:
            self._count(state, len(batch.impression_ids), len(batch.positions))

    def _count(self, state: BucketState, lists: int, rows: int) -> None:
        state.changed = True
        if self.behind.get(state.bucket.name) is state:
            self.counts["relearned"] += lists
        elif state.bucket.host is None:  # else its host has counted them
            self.counts.update(lists=lists, rows=rows)

    def _refuse(self, record: LogRecord, reason: str, *, letters_from: int | None) -> None:
        if letters_from is not None and record.offset >= letters_from:
            self.counts["dead_letters"] += 1
            origin = (self.log.topic, self.log.partition, record.offset, record.timestamp)
            self.dead_letters.append(DeadLetter(*origin, record.key, record.value, reason))

    def publish(self, now_ms: int) -> Round:
        """Return what must become durable together, and count it as published; who has caught up is at the head now.

        Should that fail, this learner must be dropped and made again from what is durable.
        """
        promoted = self._promote()
        snapshots, candidates = list[Snapshot](), list[Snapshot]()
        for state in self.states.values():
            if state.changed:
                state.stamp = max(state.stamp, self.next_offset)
                snapshots.append(self._snapshot(state, now_ms))
        for state in self.behind.values():
            if state.changed:
                (candidates if state.candidate else snapshots).append(self._snapshot(state, now_ms))
        refused, self.dead_letters = self.dead_letters, []
        self._refused_to = max(self._refused_to, self.next_offset)
        stamps = [BucketStamp(name, *state.version) for name, state in sorted(self.states.items())]
        partition_id = self.log.topic_id, self.log.partition
        progress = Progress(*partition_id, self.next_offset, now_ms, stamps, refused_to=self._refused_to)
        return Round(snapshots, progress, refused, candidates, promoted)

    def _promote(self) -> list[str]:
        promoted = []
        for name, state in list(self.behind.items()):
            if state.stamp >= self.next_offset:
                if state.candidate:
                    promoted.append(name)
                    state.candidate, state.changed = False, True
                state.letters_from = self._refused_to
                self.states[name] = self.behind.pop(name)
        return promoted

    def _snapshot(self, state: BucketState, now_ms: int) -> Snapshot:
        state.changed = False
        return take_snapshot(
            state.model,
            state.bucket,
            samples_offset=state.stamp,
            topic_id=self.log.topic_id,
            partition=self.log.partition,
            published_at_ms=now_ms,
        )


def runs_of(waiting: Iterable[tuple[LogRecord, SampleColumns]]) -> Iterator[list[tuple[LogRecord, SampleColumns]]]:
    """Return records in runs of enough rows for one product each, and of so few that they stay in cache."""
    run, rows = list[tuple[LogRecord, SampleColumns]](), 0
    for entry in waiting:
        run.append(entry)
        rows += len(entry[1].positions)
        if rows >= ROWS_AT_ONCE:
            yield run
            run, rows = [], 0
    if run:
        yield run
