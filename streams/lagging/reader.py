"""Kafka in, a Report of lag out: reads beside the jobs, touches no group, and works while they are down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import Self

from kafka import TopicPartition
from kafka.errors import AuthorizationError, KafkaError, TopicAuthorizationFailedError

from streams.lag import GroupLag, Report, partition_lag
from streams.lagging.broker import Broker
from streams.lagging.commit_records import TOPIC, Committed, Place
from streams.lagging.facts import Keeping, Look, facts_of, newest_last, reading_from
from streams.lagging.history import Ends
from streams.lagging.logs import CommitLog, ProgressLog
from streams.lagging.rules import Window
from streams.settings import Settings
from streams.topics import Found, Topics

CONFIG_S = 60.0  # topics' configs are asked for again after so long


class LagError(RuntimeError):
    """Why lag cannot be told, in one line."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A group and the topics that it reads; None for all topics of ours that it has committed to."""

    name: str
    group: str
    topics: tuple[str, ...] | None = None


class LagReader:
    """Reads lag again and again, and remembers how commits and logs moved in between.

    May be used by one thread at a time. After a LagError the next ``read`` connects anew.

    Parameters
    ----------
    settings
        Where Kafka is and what the topics are called.
    groups
        Other groups to watch beside the join and the learners, on any topic of ours.
    window
        How much of the past a verdict looks at.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        groups: Collection[str] = (),
        window: Window | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.window = settings, window or Window()
        self.topics = names = Topics.of(settings)
        self.watched = [
            Watched("join", f"{settings.topic_prefix}glimpse-join", (names.impressions, names.clicks)),
            Watched("learn", f"{settings.topic_prefix}glimpse-learn", (names.samples,)),
            *(Watched(group, group) for group in groups),
        ]
        self.hidden = ""  # why commits are not visible with their times, "" when they are
        self._clock, self._began_ms = clock, 0
        self._ends = Ends(self.window, lambda places, at_ms: self._connected().offsets_at(places, at_ms))
        self._seen: dict[Place, list[Committed]] = {}
        self._broker: Broker | None = None
        self._commits: CommitLog | None = None
        self._progress: ProgressLog | None = None
        self._progress_id = ""
        self._keeping: dict[str, Keeping] = {}
        self._keeping_until = 0.0

    @property
    def settled(self) -> bool:
        """Whether enough of the past is known for a verdict: at once, unless commits are hidden."""
        return not self.hidden or self._clock() * 1000 - self._began_ms > self.window.span_s * 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; what was seen of the past is kept."""
        held = (self._broker, self._commits, self._progress)
        self._broker = self._commits = self._progress = None
        for one in held:
            if one is not None:
                one.close()

    def read(self) -> Report:
        """Return how every group stands now."""
        try:
            return self._read()
        except (KafkaError, OSError) as error:
            self.close()
            raise LagError(explained(error, self.settings)) from error

    def _connected(self) -> Broker:
        if self._broker is None:
            self._broker = Broker(self.settings)
        return self._broker

    def _read(self) -> Report:
        broker = self._connected()
        now_ms = round(self._clock() * 1000)
        self._began_ms = self._began_ms or now_ms
        found = self._found(broker)
        topic_ids = {name: topic.topic_id for name, topic in found.items()}
        # commits before offsets, and offsets before ends: each is as new as the one before, and lag never negative
        history, learned = self._history(found, now_ms), self._learned(found, now_ms)
        commits = {one.name: self._moves(one, broker, found, history, learned, now_ms) for one in self.watched}
        places = sorted({place for moves in commits.values() for place in moves})
        logs = broker.logs(places)
        keeping = self._kept(broker, [name for name in found if name != TOPIC])
        look = Look(
            now_ms,
            topic_ids,
            keeping,
            logs,
            self._ends.note(logs, topic_ids, now_ms),
            broker.open_transactions({place: log for place, log in logs.items() if log.end < log.high}),
            broker.newest_ms([place for place in places if not keeping[place.topic].by_broker]),
            broker.oldest_ms(places),
        )
        members = broker.members([one.group for one in self.watched])
        groups = []
        for one in self.watched:
            join = one.name == "join"
            moves = commits[one.name]
            positions = {place: reading_from(moved, place, look, join=join) for place, moved in moves.items()}
            unread = broker.unread(one.group, positions, look)
            facts = [facts_of(moved, place, look, unread[place], join=join) for place, moved in moves.items()]
            lags = tuple(partition_lag(fact, now_ms=now_ms, window=self.window) for fact in facts)
            groups.append(GroupLag(one.name, one.group, members.get(one.group), lags))
        return Report(now_ms, tuple(groups), (self.hidden,) if self.hidden else ())

    def _found(self, broker: Broker) -> dict[str, Found]:
        """Return the topics that may be read; those without which there is no lag to tell must be among them."""
        found = broker.topics(astuple(self.topics))
        needed = (self.topics.impressions, self.topics.clicks, self.topics.samples, self.topics.parameters)
        missing = [name for name in needed if name not in found]
        if missing:
            raise LagError(f"no topic {', '.join(missing)} on Kafka at {self.settings.kafka}; create: glimpse topics")
        refused = [name for name in needed if not found[name].readable]
        if refused:
            raise TopicAuthorizationFailedError(f"no READ or no DESCRIBE on {', '.join(refused)}")
        return {name: topic for name, topic in found.items() if topic.readable} | broker.topics([TOPIC])

    def _history(self, found: Mapping[str, Found], now_ms: int) -> Mapping[Place, Sequence[Committed]]:
        """Return the commits of late with their times, as the broker has noted them."""
        since_ms = round(now_ms - 2 * self.window.span_s * 1000)
        self.hidden = ""
        if TOPIC not in found:
            return {}  # nobody has ever committed anything on this cluster
        if not found[TOPIC].readable:
            self.hidden = (
                f"{TOPIC} must not be read, so commit times are hidden and verdicts rest on what is seen from here; "
                "a consumer that commits without moving shows as STOP"
            )
            return {}
        if self._commits is None:
            groups = [one.group for one in self.watched]
            self._commits = CommitLog(self.settings, groups, partitions=found[TOPIC].partitions, since_ms=since_ms)
        self._commits.catch_up()
        self._commits.forget(since_ms)
        return self._commits.commits

    def _learned(self, found: Mapping[str, Found], now_ms: int) -> Mapping[int, Sequence[Committed]]:
        """Return the learners' progress of late."""
        topic_id, partitions, _ = found[self.topics.parameters]
        if self._progress is not None and self._progress_id != topic_id:
            self._progress.close()
            self._progress = None
        if self._progress is None:
            self._progress = ProgressLog(self.settings, self.topics.parameters, range(partitions))
            self._progress_id = topic_id
        self._progress.catch_up()
        self._progress.forget(now_ms - 2 * self.window.span_s * 1000)
        return self._progress.commits

    def _moves(
        self,
        watched: Watched,
        broker: Broker,
        found: Mapping[str, Found],
        history: Mapping[Place, Sequence[Committed]],
        learned: Mapping[int, Sequence[Committed]],
        now_ms: int,
    ) -> dict[TopicPartition, list[Committed]]:
        """Return a group's commits, the newest last, for each partition that it should read."""
        if watched.name == "learn":
            places = [
                TopicPartition(self.topics.samples, number) for number in range(found[self.topics.samples].partitions)
            ]
            return {place: list(learned.get(place.partition, [])) for place in places}
        now = broker.committed([watched.group])[watched.group]
        topics = watched.topics or sorted({place.topic for place in now} & (found.keys() - {TOPIC}))
        moves = {}
        for place in [TopicPartition(topic, number) for topic in topics for number in range(found[topic].partitions)]:
            key = Place(watched.group, place.topic, place.partition)
            if self.hidden:
                self._seen[key] = newest_last(self._seen.get(key, []), now.get(place), now_ms)[-1000:]
                self._seen[key] = [one._replace(at_ms=one.at_ms or now_ms) for one in self._seen[key]]
            moves[place] = newest_last((self._seen if self.hidden else history).get(key, []), now.get(place), now_ms)
        return moves

    def _kept(self, broker: Broker, names: list[str]) -> dict[str, Keeping]:
        if self._clock() > self._keeping_until:
            self._keeping = broker.keeping(names)
            self._keeping_until = self._clock() + CONFIG_S
        return self._keeping


def explained(error: Exception, settings: Settings) -> str:
    """Return a failure in one line that says what to do."""
    words = re.sub(r"^\[Error -?\d+\] \w+: ", "", (str(error) or type(error).__name__).splitlines()[0])
    if isinstance(error, AuthorizationError):
        user = settings.kafka_username or "this user"
        return (
            f"Kafka at {settings.kafka} does not let {user} look: {words}; "
            "lag needs READ on the topics and DESCRIBE on the groups, see kafka-acls.sh"
        )
    return f"Kafka at {settings.kafka} does not answer: {words}"
