"""Where the partitions begin, one decision for all of them, written down once; and where each goes on by its commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from kafka import TopicPartition
from kafka.errors import UnknownTopicOrPartitionError

from schemas.codec import encode
from schemas.records import JoinStart
from streams.broker import BrokerPort, GroupConsumer, GroupOffset
from streams.join.commit import Commit
from streams.join.job.records import START_KEY, JoinRecords
from streams.join.job.writer import JoinWriter, Outgoing
from streams.join.log_part import BadCommit
from streams.logs import RangeError, parse_time
from streams.settings import Topics

log = logging.getLogger(__name__)

BEGUN_BEFORE = -1  # in a JoinStart, for a partition that had a commit already
CHOICES = "earliest, latest or a time (ISO 8601, or milliseconds since 1970)"

Inputs = tuple[TopicPartition, TopicPartition]  # impressions and clicks of one partition
CommittedNow = Mapping[TopicPartition, GroupOffset | None]
Bounds = Mapping[TopicPartition, tuple[int, int]]

UNREADABLE = "it is tried again every minute; what no replica has whole can only be deleted (kafka-delete-records.sh)"


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


def commit_of(inputs: Inputs, committed: CommittedNow, bounds: Bounds, topic_ids: tuple[str, str]) -> Commit:
    """Return the commit of a partition that has begun, or refuse one that cannot be gone on from."""
    number = inputs[0].partition
    found = committed[inputs[0]], committed[inputs[1]]
    if found[0] is None or found[1] is None:
        missing = " and ".join(place.topic for place, entry in zip(inputs, found, strict=True) if entry is None)
        raise JoinRefused(
            f"partition {number} has begun before, and has no committed offset on {missing}; offsets expire a week "
            f"after a group has gone; {ways_out()}"
        )
    try:
        commit, made_for = Commit.decode(found[0], found[1])
    except BadCommit as error:
        raise JoinRefused(f"partition {number}: {error}; {ways_out()}") from error
    if made_for != topic_ids:
        raise made_anew(inputs)
    for place, part in zip(inputs, (commit.impressions, commit.clicks), strict=True):
        first, end = bounds[place]
        if part.place.offset < first:
            raise JoinRefused(
                f"partition {number}: {place.topic} begins at {first}, and events from {part.place.offset} are still "
                f"needed: they were deleted; keep the topic longer; {ways_out()}"
            )
        if part.processed > end:
            raise JoinRefused(
                f"partition {number}: {place.topic} ends at {end}, and was joined to {part.processed}: the log has "
                f"lost records; {ways_out()}"
            )
    return commit


def made_anew(inputs: Inputs) -> JoinRefused:
    """Return the refusal of a partition whose logs are others of the same name."""
    names = f"{inputs[0].topic} or {inputs[1].topic}"
    return JoinRefused(
        f"partition {inputs[0].partition}: {names} was made anew since it began (other topic id); {ways_out()}"
    )


def half_of(place: TopicPartition) -> str:
    """Return what is said of a partition that only one of the two topics has."""
    return (
        f"only {place.topic} has a partition {place.partition}: give the other topic as many "
        "(kafka-topics.sh --alter --partitions); the other partitions go on"
    )


def ways_out() -> str:
    """Return what somebody can do about a partition that is refused."""
    return (
        "the other partitions go on; to begin this one again, run once with --anew and --from: earliest joins all "
        "that the topics hold, and repeats what is in samples already; latest loses what was written before now; TIME "
        "loses what came before it and repeats what was joined after it"
    )


class Starts:
    """Knows where partitions begin; whoever has partition 0 decides for those that have not begun.

    A partition has begun when the JoinStart on the parameters topic counts it. From then on its commit says where it
    stands, and a commit that is missing or foreign is refused: beginning again would lose or repeat events.
    """

    def __init__(
        self,
        broker: BrokerPort,
        topics: Topics,
        *,
        start: str | None,
        anew: bool,
        now: Callable[[], float],
    ) -> None:
        self._broker, self._topics = broker, topics
        self._start, self._anew = parse_start(start), anew
        if anew and start is None:
            raise JoinRefused("--anew begins partitions again: say with --from where")
        self._records = JoinRecords(broker, topics.parameters, now=now)
        self._partitions = 0
        self._begun: JoinStart | None = None
        self.committed = set[int]()  # partitions that this process has committed: --anew was not said of these
        self.topic_ids = ("", "")  # of impressions and clicks, as they are now

    def look(self) -> bool:
        """Look which topics there are; return whether they were made anew since the last look."""
        found, before = self._broker.topics(self._topics.events), self.topic_ids
        missing = [name for name in self._topics.events if name not in found]
        if missing:
            raise UnknownTopicOrPartitionError(f"{' and '.join(missing)}, deleted under a worker; glimpse topics")
        self._partitions = min((topic.partitions for topic in found.values()), default=0)
        self.topic_ids = found[self._topics.impressions].topic_id, found[self._topics.clicks].topic_id
        self._anew = self._anew and before in (("", ""), self.topic_ids)  # it was said of the topics of then
        return self.topic_ids != before

    def inputs(self, partition: int) -> Inputs:
        """Return the two logs of a partition."""
        return TopicPartition(self._topics.impressions, partition), TopicPartition(self._topics.clicks, partition)

    def decide(self, consumer: GroupConsumer, writer: JoinWriter, member: Any) -> None:
        """Write where every partition begins that has not begun yet, in one transaction: all of them or none."""
        inputs = [self.inputs(number) for number in range(self._partitions)]
        committed = consumer.committed(chain(*inputs))  # first: whoever was deciding has then ended
        begun = self._records.start()
        if begun is not None and begun.topic_ids != self.topic_ids:
            if not self._anew:
                return  # each partition is refused when it is opened
            begun = None
        if begun is not None:
            starts = [(0, 0)] * (len(inputs) - len(begun.impressions))  # partitions that were added
        elif any(committed.values()):  # it began before there were such records
            starts = [(BEGUN_BEFORE, BEGUN_BEFORE)] * len(inputs)
        else:
            starts = self._first(consumer, inputs)
        if not starts:
            return
        new, offsets = inputs[len(inputs) - len(starts) :], dict[TopicPartition, GroupOffset]()
        for places, (impressions, clicks) in zip(new, starts, strict=True):
            if impressions != BEGUN_BEFORE and not any(committed[place] for place in places):
                commit = Commit.beginning(impressions=impressions, clicks=clicks)
                entries = commit.encode(self.topic_ids)
                offsets |= {place: GroupOffset(*entry) for place, entry in zip(places, entries, strict=True)}
        marker = Outgoing(self._topics.parameters, START_KEY, encode(extended(begun, self.topic_ids, starts)))
        writer.write([marker], offsets, member)
        log.info("partitions %s begin", [places[0].partition for places in new])

    def _first(self, consumer: GroupConsumer, inputs: list[Inputs]) -> list[tuple[int, int]]:
        if self._start is None:
            raise JoinRefused(
                "this join never began; say where: --from earliest joins all that the topics hold, --from latest "
                "loses what was written before now, --from TIME what came before it; later starts go on where they "
                "stopped, whatever --from says"
            )
        offsets = self._offsets(self._start, consumer, chain(*inputs))
        return [(offsets[impressions], offsets[clicks]) for impressions, clicks in inputs]

    def read(self) -> None:
        """Read which partitions have begun: before their commits, which were written with that or after it."""
        self._begun = self._records.start()

    def has_begun(self, partition: int) -> bool:
        """Return whether a partition without any commit has begun all the same: then the commit was lost."""
        begun = self._begun
        return begun is not None and (begun.topic_ids != self.topic_ids or partition < len(begun.impressions))

    def resume(
        self, consumer: GroupConsumer, inputs: Inputs, committed: CommittedNow, bounds: Bounds
    ) -> tuple[Commit, str]:
        """Return the commit to go on from and how it was found; refuse a partition whose commit cannot be used."""
        try:
            return commit_of(inputs, committed, bounds, self.topic_ids), "its commit"
        except JoinRefused as error:
            begun = self._begun
            others = begun is not None and begun.topic_ids != self.topic_ids  # offsets go when their topics do
            return self.again(consumer, inputs, made_anew(inputs) if others else error)

    def again(self, consumer: GroupConsumer, inputs: Inputs, error: JoinRefused) -> tuple[Commit, str]:
        """Return where a partition with such an error begins anew, if that was said; else raise the error."""
        if not self._anew or self._start is None or inputs[0].partition in self.committed:
            raise error
        offsets = self._offsets(self._start, consumer, inputs)
        commit = Commit.beginning(impressions=offsets[inputs[0]], clicks=offsets[inputs[1]])
        return commit, f"--from {self._start}, as {error}"

    def rules(self) -> dict[str, bytes]:
        """Return the rules that events were judged by so far, by hash."""
        return self._records.rules()

    @staticmethod
    def _offsets(
        start: str | int, consumer: GroupConsumer, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        wanted = list(places)
        bounds = consumer.bounds(wanted)
        if isinstance(start, str):
            return {place: bounds[place][start == "latest"] for place in wanted}
        found = consumer.offsets_at(wanted, start)
        return {place: bounds[place][1] if (at := found[place]) is None else at for place in wanted}

    def close(self) -> None:
        """Let go of connections."""
        self._records.close()


def extended(begun: JoinStart | None, topic_ids: tuple[str, str], more: list[tuple[int, int]]) -> JoinStart:
    """Return the decision with the starts of more partitions."""
    known = (begun.impressions, begun.clicks) if begun else ([], [])
    return JoinStart(*topic_ids, known[0] + [start[0] for start in more], known[1] + [start[1] for start in more])
