"""The owner of one samples partition on Kafka: restores its learner and publishes each round in a transaction."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kafka import TopicPartition

from schemas.codec import encode
from schemas.records import Candidate, Progress, Rollout, Snapshot
from streams.broker import LogConsumer, TransactionWriter, partition_of
from streams.learn.bucket_state import Durable
from streams.learn.job.store import Store
from streams.learn.partition_learner import PartitionLearner, Round
from streams.logs import LogRecord, cut_to_fit
from streams.parameters import CANDIDATE, ConfigChanged, in_force, key_of, overruled, split_snapshot
from streams.settings import Bucket

log = logging.getLogger(__name__)

PATIENCE_MS = 15_000  # for one call to the broker; then the round is given up and made again from what is durable
CATCH_UP_BYTES = 16 << 20  # of records in one round behind the head, for which the head waits
CATCH_UP_POLLS = 10


class PartitionOwner:
    """Learns one samples partition, and publishes each round in one transaction.

    Calls block, and never two at a time. Whatever goes wrong, ``drop`` and ``restore``: the state is then again that
    of the last committed transaction, and any other owner is fenced.

    Parameters
    ----------
    store
        What all owners of the process share.
    partition
        Number of the samples partition.
    published
        Told of each snapshot that is durable; also of those found at ``restore``.
    """

    def __init__(
        self,
        store: Store,
        partition: int,
        *,
        published: Callable[[Snapshot], None] = lambda snapshot: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.partition = store, partition
        self.learner: PartitionLearner | None = None
        self._published, self._clock = published, clock
        self._writer: TransactionWriter | None = None
        self._parameters_id = ""
        self._second: LogConsumer | None = None  # reads behind the head

    @property
    def name(self) -> str:
        """The name by which a new owner fences the old one."""
        return f"glimpse-learn-{self.partition}"

    def restore(self) -> PartitionLearner:
        """Fence other owners, read what is durable, and return the learner as of then."""
        self.drop()
        # Before reading: from here on nobody else can publish this partition.
        self._writer = self.store.broker.writer(self.name, patience_ms=PATIENCE_MS)
        log_now = self.store.log(self.partition)
        known = self.store.read()
        self._parameters_id = known.topic_id
        # After reading: who slept in between, while others learned on, would find them beyond an end from before.
        start, end = self.store.bounds(log_now)
        at, buckets = known.progress.get(self.partition), self.buckets(log_now.partitions)
        if at is not None and at.samples_topic_id == log_now.topic_id:
            known = self._within(known, at, buckets, start=start, end=end)
        learner = PartitionLearner(buckets, log_now, known, log_start=start)
        self._say(learner, buckets)
        for name in buckets:
            if name in known.snapshots:
                self._published(known.snapshots[name])
        if any(state.changed for state in [*learner.states.values(), *learner.behind.values()]):
            self._publish(learner)  # buckets that are new: rankers can start, and a restart need not begin again
        self.learner = learner
        return learner

    @staticmethod
    def _say(learner: PartitionLearner, buckets: Mapping[str, Bucket]) -> None:
        for name, bucket in buckets.items():
            if name in learner.held:
                log.error("%s", learner.held[name])
            elif (warning := overruled(bucket, learner.known.rollouts.get(name))) is not None:
                log.warning("%s", warning)
            if name in learner.behind:
                state, serving = learner.behind[name], name in learner.states
                log.info(
                    "bucket %r: epoch %d is learned beside the head of the log, from offset %d of %d; %s",
                    *(name, state.bucket.epoch, state.stamp, learner.next_offset),
                    "the older one goes on until then" if serving else "nothing else of it is learned until then",
                )

    def buckets(self, partitions: int) -> dict[str, Bucket]:
        """Return the buckets whose samples are on this partition."""
        buckets = self.store.settings.buckets
        return {
            name: bucket
            for name, bucket in buckets.items()
            if partition_of(bucket.learns_from, partitions) == self.partition
        }

    def _within(self, known: Durable, at: Progress, buckets: Mapping[str, Bucket], *, start: int, end: int) -> Durable:
        """Return what is known, on a log with these bounds; refuse one that has lost what was learned.

        Once every bucket that has learned it is set to a new epoch, reading goes on at the log's new end.
        """
        if at.next_offset < start:
            log.error(
                "samples partition %d: offsets %d to %d were deleted before they were learned; keep samples longer",
                *(self.partition, at.next_offset, start),
            )
        if at.next_offset <= end:
            return known
        here = [one for name, one in sorted(known.snapshots.items()) if name in buckets]
        beyond = [
            one.bucket
            for one in here
            if one.samples_topic_id == at.samples_topic_id
            and one.samples_offset > end
            and in_force(buckets[one.bucket], known.rollouts.get(one.bucket)).epoch <= one.epoch
        ]
        if beyond:
            raise ConfigChanged(
                f"samples partition {self.partition} ends at {end}, but was learned to {at.next_offset}: the log has "
                f"lost records; to relearn what is left, raise the epoch of {', '.join(beyond)} in the settings"
            )
        candidates = {name: one for name, one in known.candidates.items() if one.samples_offset <= end}
        progress = {**known.progress, self.partition: replace(at, next_offset=end, refused_to=end)}
        return replace(known, candidates=candidates, progress=progress)

    def learn(self, records: Sequence[LogRecord]) -> None:
        """Learn a round of records and publish it; when this returns, the round is durable."""
        if self.learner is None:
            raise RuntimeError(f"samples partition {self.partition} must be restored before it can learn")
        self.learner.apply(records)
        self._publish(self.learner)

    @property
    def behind(self) -> bool:
        """Whether something is learned behind the head of the log."""
        return self.learner is not None and bool(self.learner.behind)

    @property
    def elsewhere(self) -> bool:
        """Whether what was published here lies in a topic that is gone."""
        return self.learner is not None and self.store.parameters_id not in ("", self._parameters_id)

    def not_taken_up(self, rollouts: Mapping[str, Rollout]) -> list[str]:
        """Return the buckets here that were rolled out after they were restored."""
        if self.learner is None:
            return []
        known, ours = self.learner.known.rollouts, self.learner.buckets
        return [
            name
            for name, rollout in sorted(rollouts.items())
            if name in ours and (name not in known or known[name].epoch < rollout.epoch)
        ]

    def catch_up(self) -> None:
        """Learn some of what lies behind the head, and publish it; when this returns, that is durable."""
        learner = self.learner
        start = None if learner is None else learner.behind_from
        if learner is None or start is None:
            return
        place, records, size = TopicPartition(learner.log.topic, self.partition), list[LogRecord](), 0
        read_to = start
        if self._second is None:
            self._second = self.store.broker.consumer()
            self._second.assign([place])
        if self._second.position(place) != start:
            self._second.seek(place, start)
        for _ in range(CATCH_UP_POLLS):
            some = self._second.poll(100).get(place, ())
            records += [LogRecord(one.offset, one.timestamp, one.key, one.value) for one in some]
            size += sum(len(one.value or b"") for one in some)
            read_to = self._second.position(place) or start
            if not some or size > CATCH_UP_BYTES or read_to >= learner.next_offset:
                break
        learner.catch_up(records, read_to=read_to)
        if any(state.changed or state.stamp >= learner.next_offset for state in learner.behind.values()):
            self._publish(learner)

    def _publish(self, learner: PartitionLearner) -> None:
        made = learner.publish(now_ms=round(self._clock() * 1000))
        self._commit(made)
        for snapshot in made.snapshots:
            self._published(snapshot)
        for name in made.promoted:
            log.info("bucket %r: epoch %d has caught up and serves now", name, learner.states[name].bucket.epoch)

    def _commit(self, made: Round) -> None:
        writer, topics = self._writer, self.store.topics
        assert writer is not None
        # Clients read on at the same offset in another topic of the same name, and write on in it.
        known = {topics.samples: made.progress.samples_topic_id, topics.parameters: self._parameters_id}
        anew = [name for name, now in self.store.topic_ids().items() if now != known[name]]
        if anew:
            raise LookupError(f"{' and '.join(anew)} was made anew: what is there is not what was learned")
        writer.begin()
        for snapshot in made.snapshots:
            for chunk in split_snapshot(snapshot):
                writer.send(topics.parameters, key=key_of(chunk), value=encode(chunk))
                if snapshot.bucket in made.promoted:  # so that compaction takes what it was before
                    writer.send(topics.parameters, key=key_of(chunk, CANDIDATE), value=None)
        for candidate in made.candidates:
            for chunk in split_snapshot(candidate):
                writer.send(topics.parameters, key=key_of(chunk, CANDIDATE), value=encode(Candidate(encode(chunk))))
        key = f"@samples-{made.progress.samples_partition}"
        writer.send(topics.parameters, key=key.encode(), value=encode(made.progress))
        for letter in made.refused:
            key = f"{letter.topic}-{letter.partition}"
            writer.send(topics.dead_letters, key=key.encode(), value=encode(cut_to_fit(letter)))
        writer.commit()

    def drop(self) -> None:
        """Forget the state and the writer; a transaction that is still open is aborted by the next owner."""
        self.learner = None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
        second, self._second = self._second, None
        if second is not None:
            second.close()
