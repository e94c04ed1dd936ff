"""The writer that services use: arrays checked before they leave as impressions and clicks for Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from kafka import KafkaProducer
from kafka.errors import KafkaError
from numpy.typing import ArrayLike

from schemas.codec import Codec
from schemas.records import Impression
from streams.broker import producer
from streams.events.acceptance import Acceptance
from streams.events.events import Event, click_of, impression_of
from streams.settings import Settings, Topics


class DeliveryError(RuntimeError):
    """Events that did not reach Kafka, or may not have."""


class EventWriter:
    """Writes the lists that a service shows, and the taps on them, to Glimpse's topics.

    Events leave in the background; ``flush`` and ``close`` wait until Kafka has them all (acknowledged by every replica
    in sync, each exactly once), and any call raises DeliveryError when earlier events could not be delivered. Both
    topics are keyed by the session, so that a list and its clicks meet in one partition. May be shared by threads.

    Parameters
    ----------
    settings
        Where Kafka is, and the buckets by whose rules the join accepts a list; or only the broker's address.
    codec
        Another than the default framing, such as ``Codec(confluent=ids)``.
    clock
        The time of an event that states none, in seconds since 1970.
    timeout_s
        How long a call may wait for the broker.
    headers
        What each record carries beside its key and value, for who wants to know where it came from.

    A service writes::

        with EventWriter(settings) as events:
            shown = events.impression(items, contexts, session_id="s1", bucket="ubm", user_id="u1")
            events.click(shown, 2, session_id="s1")
    """

    def __init__(
        self,
        settings: Settings | str,
        *,
        codec: Codec | None = None,
        clock: Callable[[], float] = time.time,
        timeout_s: float = 10.0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self._headers = list(headers)
        self.settings = Settings(kafka=settings) if isinstance(settings, str) else settings
        self.topics = Topics.of(self.settings)
        self.timeout_s = timeout_s
        self._codec = codec or Codec()
        self._rules = Acceptance(self.settings.buckets, future_ms=0) if self.settings.buckets else None
        self._clock = clock
        self._lock = Lock()
        self._failed: list[Exception] = []
        self._producer: KafkaProducer | None = None
        self._connected()

    def impression(
        self,
        items: ArrayLike,
        contexts: ArrayLike | None = None,
        *,
        session_id: str,
        bucket: str,
        user_id: str,
        impression_id: str | None = None,
        shown_at_ms: int | None = None,
        rendered: int | None = None,
        ranked_by: tuple[int, int] = (0, -1),
        split_version: str = "",
        catalogue: str = "",
        propensities: ArrayLike | None = None,
        candidate_items: ArrayLike | None = None,
        candidate_contexts: ArrayLike | None = None,
    ) -> str:
        """Write one list that was shown, from the top, and return its id, which its clicks must name.

        Joins of before these fields were known refuse an impression that has any of the last five; upgrade them first.

        Parameters
        ----------
        split_version
            Which split of the users gave this one its bucket; samples then carry it with a hash of the user.
        catalogue
            The version of the catalogue that the candidates came from.
        propensities
            The chance with which each item was drawn for its position, given the items above it.
        candidate_items, candidate_contexts
            All items that the list was chosen from, those shown included: what ``glimpse evaluate`` ranks again.
        """
        record = impression_of(
            items,
            contexts,
            impression_id=uuid.uuid4().hex if impression_id is None else impression_id,
            session_id=session_id,
            bucket=bucket,
            user_id=user_id,
            shown_at_ms=self._now_ms() if shown_at_ms is None else shown_at_ms,
            rendered=rendered,
            ranked_by_epoch=ranked_by[0],
            ranked_by_offset=ranked_by[1],
            split_version=split_version,
            catalogue=catalogue,
            propensities=propensities,
            candidate_items=candidate_items,
            candidate_contexts=candidate_contexts,
        )
        self.send(record)
        return record.impression_id

    def click(
        self,
        impression_id: str,
        position: int,
        *,
        session_id: str,
        clicked_at_ms: int | None = None,
        reward: float = 1.0,
    ) -> None:
        """Write one tap on a position (1-based) of a list; the session must be the list's."""
        at_ms = self._now_ms() if clicked_at_ms is None else clicked_at_ms
        self.send(
            click_of(
                impression_id=impression_id,
                session_id=session_id,
                position=position,
                clicked_at_ms=at_ms,
                reward=reward,
            )
        )

    def send(self, event: Event, *, timestamp_ms: int | None = None) -> None:
        """Write one record as it is; ``timestamp_ms`` is Kafka's, for topics that keep the creator's time."""
        self._raise_failures()
        topic = self.topics.clicks
        if isinstance(event, Impression):
            self._judge(event)
            topic = self.topics.impressions
        value = self._codec.encode(event)
        try:
            sent = self._connected().send(
                topic, value, key=event.session_id.encode(), timestamp_ms=timestamp_ms, headers=self._headers
            )
        except KafkaError as error:
            raise DeliveryError(f"cannot write to {topic!r}: {error}; does it exist? see: glimpse topics") from error
        sent.add_errback(self._note)

    def flush(self) -> None:
        """Wait until Kafka has every event, or raise DeliveryError."""
        try:
            self._connected().flush(timeout=self.timeout_s)
        except KafkaError as error:
            raise DeliveryError(f"events not delivered within {self.timeout_s:g} s: {error}") from error
        self._raise_failures()

    def close(self) -> None:
        """Deliver what is left, and let go of the broker."""
        try:
            self.flush()
        finally:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._disconnect()  # which delivers too, but the service's own error is the one to see

    def _judge(self, event: Impression) -> None:
        """Refuse here what the join would refuse as a dead letter (time apart, which only the broker knows)."""
        if self._rules is not None:
            at_ms = np.array([event.shown_at_ms])
            if refused := self._rules.refusals([event], at_ms):
                raise ValueError(refused[0])

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _connected(self) -> KafkaProducer:
        with self._lock:
            if self._producer is None:
                self._producer = self._connect()
            return self._producer

    def _connect(self) -> KafkaProducer:
        options = {
            "allow_auto_create_topics": False,  # with the broker's default partitions the two topics would not match
            "linger_ms": 5,
            "batch_size": 1 << 17,
            "max_block_ms": int(self.timeout_s * 1000),
            "bootstrap_timeout_ms": int(self.timeout_s * 1000),
        }
        try:
            return producer(self.settings, **options)
        except KafkaError as error:
            raise DeliveryError(f"no Kafka at {self.settings.kafka} within {self.timeout_s:g} s: {error}") from error

    def _disconnect(self) -> None:
        with self._lock:
            gone, self._producer = self._producer, None
        if gone is not None:
            gone.close(timeout=self.timeout_s)

    def _note(self, error: Exception) -> None:
        with self._lock:  # called by the producer's own thread
            self._failed.append(error)

    def _raise_failures(self) -> None:
        with self._lock:
            failed, self._failed = self._failed, []
        if failed:
            self._disconnect()  # after one refusal by the broker kafka-python refuses all; the next call reconnects
            first = failed[0]
            raise DeliveryError(f"{len(failed)} events were not delivered; the first because: {first}") from first
