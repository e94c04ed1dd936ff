"""The reader of lag on a live broker: touches no group, and works while the jobs are down."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple
from typing import Self

from kafka import TopicPartition
from kafka.errors import (
    AuthorizationError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
)

from streams.broker import TopicState
from streams.lag.commit_records import TOPIC, Committed
from streams.lag.facts import Ends, LogsView, Retention, facts_of, reading_from
from streams.lag.job.broker import Broker
from streams.lag.job.commit_history import CommitHistory, Watched
from streams.lag.job.logs import PATIENCE_MS
from streams.lag.report import GroupLag, LagReport, partition_lag, without_leader
from streams.lag.verdict import Window
from streams.settings import Settings, Topics

CONFIG_S = 60.0  # topics' configs are asked for again after so long
COMING = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError)


class LagError(RuntimeError):
    """Why lag cannot be told, in one line."""


class LagReader:
    """Reads lag again and again, and remembers how commits and logs moved in between.

    May be used by one thread at a time. After a LagError the next ``read`` connects anew. It watches ``groups`` next
    to the join and the learners, on any topic of ours.
    """

    def __init__(self, settings: Settings, *, groups: Collection[str] = (), window: Window | None = None) -> None:
        self.settings, self.window = settings, window or Window()
        self.topics = names = Topics.of(settings)
        self.watched = [
            Watched("join", f"{settings.topic_prefix}glimpse-join", (names.impressions, names.clicks)),
            Watched("learn", f"{settings.topic_prefix}glimpse-learn", (names.samples,)),
            *(Watched(group, group) for group in groups),
        ]
        self._began_ms = 0
        self._moves = CommitHistory(settings, self.watched, window=self.window)
        self._ends = Ends(self.window, lambda partitions, at_ms: self._connected().offsets_at(partitions, at_ms))
        self._broker: Broker | None = None
        self._retention: dict[str, Retention] = {}
        self._retention_until = 0.0

    @property
    def settled(self) -> bool:
        """Whether enough of the past is known for a verdict: at once, unless commits are hidden."""
        return not self._moves.hidden or time.time() * 1000 - self._began_ms > self.window.span_s * 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; what was seen of the past is kept."""
        self._moves.close()
        if self._broker is not None:
            self._broker.close()
        self._broker = None

    def read(self) -> LagReport:
        """Return how every group stands now."""
        give_up_at = time.monotonic() + PATIENCE_MS / 1000
        while True:
            try:
                return self._read()
            except (KafkaError, OSError) as error:
                if isinstance(error, COMING) and time.monotonic() <= give_up_at:  # a broker that has just begun
                    time.sleep(0.2)
                    continue
                self.close()
                raise LagError(explained(error, self.settings)) from error

    def _connected(self) -> Broker:
        if self._broker is None:
            self._broker = Broker(self.settings)
        return self._broker

    def _read(self) -> LagReport:
        broker = self._connected()
        now_ms = round(time.time() * 1000)
        self._began_ms = self._began_ms or now_ms
        descriptions = self._found(broker)
        topic_ids = {name: topic.topic_id for name, topic in descriptions.items()}
        # commits before offsets, and offsets before ends: each is as new as the one before, and lag never negative
        commits = self._moves.read(broker, descriptions, now_ms)
        now_ms += self._moves.clocks.ahead_ms
        known = {partition for moves in commits.values() for partition in moves}
        partitions = sorted(each for each in known if each.partition not in descriptions[each.topic].leaderless)
        logs = broker.logs(partitions)
        retention = self._kept(broker, [name for name in descriptions if name != TOPIC])
        view = LogsView(
            now_ms=now_ms,
            topic_ids=topic_ids,
            retention=retention,
            logs=logs,
            ends=self._ends.note(logs, topic_ids, now_ms),
            since_ms=self._ends.since_ms,
            held=broker.open_transactions({partition: log for partition, log in logs.items() if log.end < log.high}),
            newest_ms=broker.newest_ms([partition for partition in partitions if not retention[partition.topic].live]),
            oldest_ms=broker.oldest_ms(partitions),
        )
        groups = [self._group(broker, watched, commits[watched.name], view) for watched in self.watched]
        return LagReport(now_ms, tuple(groups), tuple(self._notes(retention)))

    def _group(
        self, broker: Broker, watched: Watched, commits: Mapping[TopicPartition, list[Committed]], view: LogsView
    ) -> GroupLag:
        join, served = watched.name == "join", [partition for partition in commits if partition in view.logs]
        positions = {partition: reading_from(commits[partition], partition, view, join=join) for partition in served}
        unread = broker.unread(watched.group, positions, view)
        lags = []
        for partition, moved in commits.items():
            if partition in unread:
                facts = facts_of(moved, partition, view, unread[partition], join=join)
                lags.append(partition_lag(facts, now_ms=view.now_ms, window=self.window))
            else:
                lags.append(without_leader(*partition, committed=moved[-1].offset if moved else None))
        return GroupLag(watched.name, watched.group, broker.members(watched.group), tuple(lags))

    def _notes(self, retention: Mapping[str, Retention]) -> Iterator[str]:
        """Yield what one should know about the numbers, one line each."""
        if self._moves.hidden:
            yield self._moves.hidden
        if self._moves.clocks.ahead_ms:
            yield self._moves.clocks.words
        unknown = [name for name, policy in retention.items() if not policy.known]
        if unknown:
            yield f"no DESCRIBE_CONFIGS on {', '.join(unknown)}, so nobody knows how long their records are kept"
        by_size = [name for name, policy in retention.items() if policy.by_size]
        if by_size:
            yield f"{', '.join(by_size)} also lose records by size (retention.bytes), which is not seen here"
        if self._moves.unreadable:
            yield f"{self._moves.unreadable} progress records on {self.topics.parameters} cannot be read"

    def _found(self, broker: Broker) -> dict[str, TopicState]:
        """Return the topics that may be read; those without which there is no lag to tell must be among them."""
        descriptions = broker.topics(astuple(self.topics))
        needed = (self.topics.impressions, self.topics.clicks, self.topics.samples, self.topics.parameters)
        missing = [name for name in needed if name not in descriptions]
        if missing:
            raise LagError(f"no topic {', '.join(missing)} on Kafka at {self.settings.kafka}; create: glimpse topics")
        refused = [name for name in needed if not descriptions[name].readable]
        if refused:
            raise TopicAuthorizationFailedError(f"no READ or no DESCRIBE on {', '.join(refused)}")
        if descriptions[self.topics.parameters].leaderless:
            raise LagError(f"{self.topics.parameters}[0] on Kafka at {self.settings.kafka} has no leader just now")
        return {name: topic for name, topic in descriptions.items() if topic.readable} | broker.topics([TOPIC])

    def _kept(self, broker: Broker, names: list[str]) -> dict[str, Retention]:
        if time.time() > self._retention_until or set(names) - self._retention.keys():
            self._retention = broker.retention(names)
            self._retention_until = time.time() + CONFIG_S
        return self._retention


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
