"""Where the partitions begin, one decision for all of them, written down once; and where each goes on by its commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError

from schemas.codec import SchemaError, decode, encode
from schemas.records import JoinStart, Rules
from streams.broker import BrokerPort, GroupConsumer, GroupOffset, LogConsumer
from streams.join.commit import NO_TOPICS, BadCommit, Commit
from streams.join.job.owner import Bounds, Inputs, offsets_of
from streams.join.job.writer import RULES_KEY, START_KEY, JoinWriter, Outgoing
from streams.logs import RangeError, parse_time
from streams.settings import LogPair, Topics

log = logging.getLogger(__name__)

BEGUN_BEFORE = -1  # in a JoinStart, for partitions whose earlier JoinStart was lost with the parameters topic
PATIENCE_S = 30.0  # a writer that was killed holds readers of committed records back for 10 s
CHOICES = "earliest, latest or a time (ISO 8601, or milliseconds since 1970)"
UNREADABLE = "it is tried again every minute; what no replica has whole can only be deleted (kafka-delete-records.sh)"
WAYS_OUT = (
    "the other partitions go on; to begin this one again, run once with --anew and --from: earliest joins all "
    "that the topics hold, and repeats what is in samples already; latest loses what was written before now; TIME "
    "loses what came before it and repeats what was joined after it"
)

CommittedNow = Mapping[TopicPartition, GroupOffset | None]
J = TypeVar("J")


class JoinRefused(RuntimeError):
    """A start that would lose or repeat events without anybody having decided so."""


def parse_start(start: str | None) -> str | int | None:
    """Return ``start`` as earliest, latest or milliseconds since 1970.

    >>> parse_start("earliest"), parse_start("1700000000000"), parse_start("2023-11-14T22:13:20Z")
    ('earliest', 1700000000000, 1700000000000)
    """
    if start is None or start in ("earliest", "latest"):
        return start
    if start.isdecimal() and len(start) < 16:
        return int(start)
    try:
        return parse_time(start)
    except RangeError as error:
        raise JoinRefused(f"--from {start!r}: wanted {CHOICES}") from error


def commit_of(inputs: Inputs, committed: CommittedNow, bounds: Bounds, topic_ids: LogPair[str]) -> Commit:
    """Return the commit of a partition that has begun; raise BadCommit if nobody can go on from it."""
    impressions, clicks = inputs.map(committed.__getitem__)
    if impressions is None or clicks is None:
        missing = " and ".join(source.topic for source in inputs if committed[source] is None)
        raise BadCommit(
            f"it has begun before, and has no committed offset on {missing}; offsets expire a week after a group has "
            "gone"
        )
    commit, made_for = Commit.decode(impressions, clicks)
    if made_for != topic_ids:
        raise made_anew(inputs)
    for source, part in inputs.paired_with(commit.logs):
        (first, end), needed_from = bounds[source], part.restart.offset
        if needed_from < first:
            raise BadCommit(
                f"{source.topic} begins at {first}, and events from {needed_from} are still needed: they were deleted; "
                "keep the topic longer"
            )
        if part.processed > end:
            raise BadCommit(f"{source.topic} ends at {end}, and was joined to {part.processed}: the log lost records")
    return commit


def made_anew(inputs: Inputs) -> BadCommit:
    """Return the error of a partition whose logs are others of the same name."""
    names = " or ".join(source.topic for source in inputs)
    return BadCommit(f"{names} was made anew since it began (other topic id)")


class Starts:
    """Knows where partitions begin; whoever has partition 0 decides for those that have not begun.

    A partition has begun when the JoinStart on the parameters topic counts it. From then on its commit says where it
    stands, and a commit that is missing or foreign is refused: beginning again would lose or repeat events.
    """

    def __init__(
        self, broker: BrokerPort, topics: Topics, *, start: str | None, anew: bool, now: Callable[[], float]
    ) -> None:
        self._broker, self._topics = broker, topics
        self._start, self._anew = parse_start(start), anew
        if anew and start is None:
            raise JoinRefused("--anew begins partitions again: say with --from where")
        self._now, self._parameters = now, TopicPartition(topics.parameters, 0)
        self._consumer: LogConsumer | None = None
        self._started: JoinStart | None = None  # as it was last read: where the join began, if it has
        self._rules: dict[str, bytes] = {}  # by hash; whoever uses them checks it
        self._partitions = 0
        self._begun: JoinStart | None = None
        self.topic_ids = NO_TOPICS  # as they are now

    def _catch_up(self) -> None:
        """Read the join's own records on the parameters topic: all that was committed before this call."""
        try:
            if self._consumer is None:
                self._consumer = self._broker.consumer()
                self._consumer.assign([self._parameters])
            # The end with open transactions: a decision that is about to be committed must not be missed.
            (_, end), give_up_at = self._consumer.bounds([self._parameters])[self._parameters], self._now() + PATIENCE_S
            while (self._consumer.position(self._parameters) or 0) < end:
                for record in chain.from_iterable(self._consumer.poll(100).values()):
                    self._take(record.key, record.value)
                if self._now() > give_up_at:
                    raise KafkaTimeoutError(f"{self._parameters.topic} was not read to its end within {PATIENCE_S:g} s")
        except KafkaTimeoutError:
            raise  # what was read stays read
        except KafkaError:
            self.close()
            raise

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            if key == START_KEY:
                self._started = decode(value, JoinStart) if value is not None else None
            elif key is not None and key.startswith(RULES_KEY) and value is not None:
                rules = decode(value, Rules)
                self._rules[rules.hash] = rules.rules
        except SchemaError:
            return  # somebody else's bytes: what was good stays

    def close(self) -> None:
        """Let go of the reader; the next read starts from the beginning."""
        consumer, self._consumer, self._started, self._rules = self._consumer, None, None, {}
        if consumer is not None:
            consumer.close()

    def look(self) -> bool:
        """Look which topics there are; return whether they were made anew since the last look."""
        topics, before = self._broker.topics(self._topics.events), self.topic_ids
        missing = [name for name in self._topics.events if name not in topics]
        if missing:
            raise UnknownTopicOrPartitionError(f"{' and '.join(missing)}, deleted under a worker; glimpse topics")
        self._partitions = min(topic.partitions for topic in topics.values())
        self.topic_ids = self._topics.events.map(lambda name: topics[name].topic_id)
        self._anew = self._anew and before in (NO_TOPICS, self.topic_ids)  # --anew applies to the topics of that time
        return self.topic_ids != before

    def inputs(self, partition: int) -> Inputs:
        """Return the two logs of a partition."""
        return self._topics.events.map(lambda topic: TopicPartition(topic, partition))

    def decide(self, consumer: GroupConsumer, writer: JoinWriter, member: Any) -> None:
        """Write where every partition begins that has not begun yet, in one transaction: all of them or none."""
        inputs = [self.inputs(number) for number in range(self._partitions)]
        committed = consumer.committed(chain(*inputs))  # first: whoever was deciding has then ended
        self._catch_up()
        begun = self._started
        if begun is not None and begun.topic_ids != self.topic_ids:
            if not self._anew:
                return  # each partition is refused when it is opened
            begun = None
        if begun is not None:
            starts = [LogPair(0, 0)] * (len(inputs) - len(begun.impressions))  # partitions that were added
        elif any(committed.values()):  # the parameters topic was recreated
            starts = [LogPair(BEGUN_BEFORE, BEGUN_BEFORE)] * len(inputs)
        else:
            starts = self._first(consumer, inputs)
        if not starts:
            return
        new, offsets = inputs[len(inputs) - len(starts) :], dict[TopicPartition, GroupOffset]()
        for sources, start in zip(new, starts, strict=True):
            if start.impressions != BEGUN_BEFORE and not any(committed[source] for source in sources):
                offsets |= offsets_of(sources, Commit.beginning(**start._asdict()).encode(self.topic_ids))
        impressions = [*(begun.impressions if begun else ()), *(start.impressions for start in starts)]
        clicks = [*(begun.clicks if begun else ()), *(start.clicks for start in starts)]
        marker = encode(JoinStart(*self.topic_ids, impressions, clicks))
        writer.write([Outgoing(self._topics.parameters, START_KEY, marker)], offsets, member)
        log.info("partitions %s begin", [sources.impressions.partition for sources in new])

    def _first(self, consumer: GroupConsumer, inputs: list[Inputs]) -> list[LogPair[int]]:
        if self._start is None:
            raise JoinRefused(
                "this join never began; say where: --from earliest joins all that the topics hold, --from latest "
                "loses what was written before now, --from TIME what came before it; later starts go on where they "
                "stopped, whatever --from says"
            )
        offsets = self._offsets(self._start, consumer, chain(*inputs))
        return [sources.map(offsets.__getitem__) for sources in inputs]

    def read(self) -> None:
        """Read which partitions have begun: before their commits, which were written with that or after it."""
        self._catch_up()
        self._begun = self._started

    def rules(self) -> dict[str, bytes]:
        """Return the rules that events were judged by so far, by hash."""
        self._catch_up()
        return self._rules

    @property
    def _began_elsewhere(self) -> bool:
        """Whether the join began in other topics of these names, whose offsets went with them."""
        return self._begun is not None and self._begun.topic_ids != self.topic_ids

    def has_begun(self, partition: int) -> bool:
        """Return whether a partition without any commit has begun all the same: then the commit was lost."""
        return self._begun is not None and (self._began_elsewhere or partition < len(self._begun.impressions))

    def resume(
        self,
        consumer: GroupConsumer,
        inputs: Inputs,
        committed: CommittedNow,
        bounds: Bounds,
        open_join: Callable[[Commit], J],
        *,
        has_written: bool,
    ) -> tuple[J, Commit, str]:
        """Return the join of a partition, the commit that it goes on from, and where that is from.

        A commit that cannot be used is refused, unless --anew allows a new start, and this process
        has not written it since.
        """
        number = inputs.impressions.partition
        try:
            commit = commit_of(inputs, committed, bounds, self.topic_ids)
            return open_join(commit), commit, "its commit"
        except BadCommit as bad:
            error = made_anew(inputs) if self._began_elsewhere else bad
            refused = JoinRefused(f"partition {number}: {error}; {WAYS_OUT}")
            if not self._anew or self._start is None or has_written:
                raise refused from bad
        offsets = inputs.map(self._offsets(self._start, consumer, inputs).__getitem__)
        commit = Commit.beginning(**offsets._asdict())
        return open_join(commit), commit, f"--from {self._start}, as {refused}"

    @staticmethod
    def _offsets(
        start: str | int, consumer: GroupConsumer, sources: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        wanted = list(sources)
        bounds = consumer.bounds(wanted)
        if start == "earliest":
            return {source: first for source, (first, _) in bounds.items()}
        ends = {source: end for source, (_, end) in bounds.items()}
        if isinstance(start, str):
            return ends
        offsets = consumer.offsets_at(wanted, start)
        return {source: end if (offset := offsets[source]) is None else offset for source, end in ends.items()}
