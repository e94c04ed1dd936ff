"""What the join has said on the parameters topic: where it began, and by which rules it has judged."""

from __future__ import annotations

from collections.abc import Callable

from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from schemas.codec import SchemaError, decode
from schemas.records import JoinStart, Rules
from streams.broker import BrokerPort, LogConsumer

START_KEY, RULES_KEY = b"@join", b"@rules-"
PATIENCE_S = 30.0  # a writer that was killed holds readers of committed records back for 10 s


class JoinRecords:
    """The join's own records on the parameters topic, read to its end each time they are asked for."""

    def __init__(self, broker: BrokerPort, topic: str, *, now: Callable[[], float]) -> None:
        self._broker, self._place, self._now = broker, TopicPartition(topic, 0), now
        self._consumer: LogConsumer | None = None
        self._start: JoinStart | None = None
        self._rules: dict[str, bytes] = {}

    def start(self) -> JoinStart | None:
        """Return where the join began, if it has, by all that was committed before this call."""
        self._catch_up()
        return self._start

    def rules(self) -> dict[str, bytes]:
        """Return rules by hash, by all that was committed before this call; whoever uses them checks their hash."""
        self._catch_up()
        return self._rules

    def _catch_up(self) -> None:
        try:
            self._read()
        except KafkaTimeoutError:
            raise  # what was read stays read
        except KafkaError:
            self.close()
            raise

    def _read(self) -> None:
        if self._consumer is None:
            self._consumer = self._broker.consumer()
            self._consumer.assign([self._place])
        # The end with open transactions: a decision that is about to be committed must not be missed.
        (_, end), give_up_at = self._consumer.bounds([self._place])[self._place], self._now() + PATIENCE_S
        while (self._consumer.position(self._place) or 0) < end:
            for records in self._consumer.poll(100).values():
                for record in records:
                    self._take(record.key, record.value)
            if self._now() > give_up_at:
                raise KafkaTimeoutError(f"{self._place.topic} was not read to its end within {PATIENCE_S:g} s")

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            if key == START_KEY:
                self._start = decode(value, JoinStart) if value is not None else None
            elif key is not None and key.startswith(RULES_KEY) and value is not None:
                rules = decode(value, Rules)
                self._rules[rules.hash] = rules.rules
        except SchemaError:
            return  # somebody else's bytes: what was good stays

    def close(self) -> None:
        """Let go of the reader; the next read starts from the beginning."""
        consumer, self._consumer, self._start, self._rules = self._consumer, None, None, {}
        if consumer is not None:
            consumer.close()
