"""Logged topics on Kafka: blocks of a range of each partition; no group is ever touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from streams.broker import TopicState, admin, consumer, describe_topics
from streams.logs.archive import Archive
from streams.logs.block import LogBlock
from streams.logs.source import SETTLED_WITHIN_S, ArchiveSource, LogSource, RangeError, SourceAway, TransactionOpen
from streams.settings import Settings

_PATIENCE_S = 30.0


def open_source(address: str, settings: Settings) -> LogSource:
    """Return the logs at ``kafka``, ``kafka://host:port`` or a directory."""
    if address == "kafka":
        return KafkaSource(settings)
    if address.startswith("kafka://"):
        return KafkaSource(replace(settings, kafka=address.removeprefix("kafka://")))
    return ArchiveSource(Archive.open(address))


class KafkaSource:
    """The topics of a broker, read by assignment: committed records only, without a group."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._found: dict[str, TopicState] = {}
        self._asking: dict[str, KafkaConsumer] = {}  # for bounds, by isolation level; each read has its own

    @property
    def address(self) -> str:
        """The broker as a URL."""
        return f"kafka://{self.settings.kafka}"

    def where(self) -> str:
        """Return the broker's address."""
        return f"Kafka at {self.settings.kafka}"

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise SourceAway(f"{self.where()} does not answer: {error}") from error

    def has(self, topic: str) -> bool:
        """Return whether the topic is there."""
        name = self.settings.topic_prefix + topic
        if name not in self._found:
            with self._answering(), admin(self.settings) as client:
                there = describe_topics(client, [name])
            self._found |= {name: state for name, state in there.items() if state.partitions}
        return name in self._found

    def _known(self, topic: str) -> TopicState:
        name = self.settings.topic_prefix + topic
        if not self.has(topic):
            raise RangeError(f"no topic {name!r} on {self.where()}; see: glimpse topics")
        return self._found[name]

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._known(topic).partitions

    def topic_id(self, topic: str) -> str:
        """Return the topic's id."""
        return self._known(topic).topic_id

    def _log(self, topic: str, partition: int) -> TopicPartition:
        self._known(topic)
        return TopicPartition(self.settings.topic_prefix + topic, partition)

    def _ask(self, level: str = "read_committed") -> KafkaConsumer:
        if level not in self._asking:
            self._asking[level] = consumer(self.settings, isolation_level=level)
        return self._asking[level]

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset that is kept, and the end of what is committed."""
        log = self._log(topic, partition)
        with self._answering():
            return self._ask().beginning_offsets([log])[log], self._ask().end_offsets([log])[log]

    def settle(self, topic: str, partition: int, *, within_s: float = SETTLED_WITHIN_S) -> None:
        """Wait until all that was written to a partition before can be read, or raise TransactionOpen.

        A committed reader's end is the last stable offset: it hides what others committed behind an open transaction.
        """
        log, give_up_at = self._log(topic, partition), time.monotonic() + within_s
        with self._answering():
            written_to = self._ask("read_uncommitted").end_offsets([log])[log]
        while self.bounds(topic, partition)[1] < written_to:
            if time.monotonic() > give_up_at:
                raise TransactionOpen(
                    f"a transaction is open on {log.topic} {partition} of {self.where()}, and hides what was written "
                    "after it began; run it again in 20 s"
                )
            time.sleep(0.1)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return the first offset stamped at or after ``time_ms``, or the end."""
        log = self._log(topic, partition)
        with self._answering():
            entry = self._ask().offsets_for_times({log: time_ms})[log]
            return int(entry.offset) if entry is not None else int(self._ask().end_offsets([log])[log])

    def close(self) -> None:
        """Let go of the broker."""
        while self._asking:
            self._asking.popitem()[1].close()

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[LogBlock]:
        """Yield the blocks of a range; ``stop`` must not lie beyond the end."""
        if start >= stop:
            return
        log = self._log(topic, partition)
        with self._answering():
            reader = consumer(self.settings)
        try:
            reader.assign([log])
            reader.seek(log, start)
            at, heard = start, time.monotonic()
            while at < stop:
                records = reader.poll(timeout_ms=100).get(log, [])
                after = reader.position(log)
                if after > at:
                    at, heard = after, time.monotonic()
                    inside = [record for record in records if record.offset < stop]
                    yield LogBlock.of(inside, min(at, stop))
                elif time.monotonic() - heard > _PATIENCE_S:
                    raise SourceAway(f"{self.where()}: {log.topic} {partition} gave nothing after offset {at}")
        except KafkaError as error:
            raise SourceAway(f"{self.where()}: {log.topic} {partition} cannot be read: {error}") from error
        finally:
            reader.close()
