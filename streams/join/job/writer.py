"""One Kafka transaction of the join: all that its checkpoints hold and the offsets it comes from, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kafka import TopicPartition

from schemas.codec import encode
from streams.broker import BrokerPort, GroupOffset
from streams.join.outbox import Checkpoint
from streams.settings import Topics

START_KEY, RULES_KEY = b"@join", b"@rules-"  # of the join's own records on the parameters topic
PATIENCE_MS = 10_000
LEAST_BYTES, MOST_BYTES = 1 << 20, 32 << 20  # of one transaction
QUICK_S, SLOW_S = 1.0, 3.0


class Outgoing(NamedTuple):
    """One encoded record, and where it goes."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None


def outgoing(checkpoint: Checkpoint, topics: Topics, topic_id: str) -> Iterator[Outgoing]:
    """Yield all that a checkpoint writes; ``topic_id`` is that of the impressions."""
    for rules in checkpoint.rules:
        key = RULES_KEY + f"{rules.hash}-{rules.partition}-{rules.impressions_from}".encode()
        yield Outgoing(topics.parameters, key, encode(replace(rules, topic_id=topic_id)))
    for batch in checkpoint.samples:
        yield Outgoing(topics.samples, batch.bucket.encode(), encode(batch))
    for letter in checkpoint.dead_letters:
        yield Outgoing(topics.dead_letters, f"{letter.topic}-{letter.partition}".encode(), encode(letter))
    for click in checkpoint.late_clicks:
        yield Outgoing(topics.late_clicks, click.key, click.value, click.timestamp)


class JoinWriter:
    """The transactional producer of one join process; after any error it is dropped and another one made.

    Records of the topic ``last`` are written last. If these are the large ones, the transaction learns with one request
    of all places that the others go to; each place that comes in between would hold up what follows for a request.
    """

    def __init__(self, broker: BrokerPort, name: str, *, last: str) -> None:
        self._writer, self._last = broker.writer(name, patience_ms=PATIENCE_MS), last

    def write(self, records: Iterable[Outgoing], offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Write ``records`` and commit ``offsets``, which only takes effect while ``member`` is in the group."""
        self._writer.begin()
        for topic, key, value, timestamp_ms in sorted(records, key=lambda record: record.topic == self._last):
            self._writer.send(topic, key=key, value=value, timestamp_ms=timestamp_ms)
        if offsets:
            self._writer.send_offsets(offsets, member)
        self._writer.commit()

    def close(self) -> None:
        """Let go of the producer; a transaction that is still open is aborted by the next one, or by its timeout."""
        self._writer.abandon()


class Pace:
    """How many bytes one transaction may hold: half as many when one fails or is slow, twice as many when it is quick.

    A transaction must end within 10 s. The least that is tried is 1 MB, as much as a single record may take, so that
    the slowest link that works carries 0.1 MB/s.

    >>> pace = Pace()
    >>> for seconds in (0.1, 0.1, 5.0): pace.took(seconds)
    >>> pace.bytes >> 20
    2
    """

    def __init__(self) -> None:
        self.bytes = LEAST_BYTES

    def took(self, seconds: float) -> None:
        """Note how long a transaction took."""
        if seconds < QUICK_S:
            self.bytes = min(MOST_BYTES, self.bytes * 2)
        elif seconds > SLOW_S:
            self.failed()

    def failed(self) -> None:
        """Note one that failed."""
        self.bytes = max(LEAST_BYTES, self.bytes // 2)
