"""The writer that services use: arrays judged before they leave as impressions and clicks for Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Self

from kafka import KafkaProducer
from kafka.errors import KafkaError
from numpy.typing import ArrayLike

from schemas.records import Impression
from streams.broker import let_go, producer
from streams.events.acceptance import Acceptance
from streams.events.events import Event, click_of, impression_of
from streams.events.reader import codec_of
from streams.events.rules import judge_events
from streams.settings import Settings, Topics


class DeliveryError(RuntimeError):
    """Events that did not reach Kafka, or may not have."""


class EventWriter:
    """Writes the lists that a service shows, and the taps on them, to Glimpse's topics.

    Events leave in the background; ``flush`` and ``close`` wait until Kafka has them all (acknowledged by every replica
    in sync, each exactly once), and any call raises DeliveryError when earlier events could not be delivered. Both
    topics are keyed by the session, so that a list and its clicks meet in one partition. May be shared by threads.

    ``settings`` say where Kafka is, by which rules of buckets the join accepts events, and the ids of a schema registry
    if events are to have Confluent framing; or they are only the broker's address. ``clock`` gives the time of an event
    that states none, in seconds since 1970. A call waits for the broker up to ``timeout_s``. Each record carries
    ``headers``. A service writes::

        with EventWriter(settings) as events:
            shown = events.impression(items, contexts, session_id="s1", bucket="ubm", user_id="u1")
            events.click(shown, 2, session_id="s1")
    """

    def __init__(
        self,
        settings: Settings | str,
        *,
        clock: Callable[[], float] = time.time,
        timeout_s: float = 10.0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self._headers = list(headers)
        self.settings = Settings(kafka=settings) if isinstance(settings, str) else settings
        self.topics = Topics.of(self.settings)
        self.timeout_s = timeout_s
        self._codec = codec_of(self.settings)
        self._accept = Acceptance(self.settings.buckets, future_ms=0)
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

        Samples carry the ``split_version`` that gave the user this bucket, with a hash of the user. ``catalogue`` is
        the version that the candidates came from, ``propensities`` the chance with which each item was drawn for its
        position, given those above. Candidates are all items that the list was chosen from, those shown included:
        ``glimpse evaluate`` ranks them again. Joins that do not know these five fields refuse them; upgrade them first.
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
        record = click_of(
            impression_id=impression_id, session_id=session_id, position=position, clicked_at_ms=at_ms, reward=reward
        )
        self.send(record)

    def send(self, event: Event, *, timestamp_ms: int | None = None) -> None:
        """Write one record as it is; ``timestamp_ms`` is Kafka's, for topics that keep the creator's time."""
        self._raise_failures()
        if rejected := judge_events(self._accept, [event], event.at_ms):  # only the broker knows the record's time
            raise ValueError(rejected[0])
        topic = self.topics.impressions if isinstance(event, Impression) else self.topics.clicks
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

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if error is None:
            self.close()
        else:
            self._disconnect()  # which delivers too, but the service's own error is the one to see

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _connected(self) -> KafkaProducer:
        timeout_ms = int(self.timeout_s * 1000)
        options = {
            "allow_auto_create_topics": False,  # with the broker's default partitions the two topics would not match
            "linger_ms": 5,
            "batch_size": 1 << 17,
            "max_block_ms": timeout_ms,
            "bootstrap_timeout_ms": timeout_ms,
        }
        try:
            with self._lock:
                if self._producer is None:
                    self._producer = producer(self.settings, **options)
                return self._producer
        except KafkaError as error:
            raise DeliveryError(f"no Kafka at {self.settings.kafka} within {self.timeout_s:g} s: {error}") from error

    def _disconnect(self) -> None:
        with self._lock:
            gone, self._producer = self._producer, None
        if gone is not None:
            try:
                gone.close(timeout=self.timeout_s)
            except KafkaError:  # of its first record that was not delivered; each tells of itself in its own errback
                let_go(gone)

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
