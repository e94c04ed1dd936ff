"""Events on their way to Kafka, from who cannot wait for it: a queue that is bounded while Kafka is away."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event as Signal
from threading import Lock, Thread
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.errors import InvalidTimestampError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from schemas.codec import Codec
from schemas.records import Impression
from streams.broker import producer
from streams.events.events import Event
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

MOST_BYTES = 64 << 20
OVERHEAD_BYTES = 400  # of one event in the producer's memory, beside its bytes
BLOCK_MS = 200  # for what a send may have to learn of the topics
AGAIN_S = 0.5
BOOTSTRAP_MS = 3000
GIVE_UP_MS = 10_000  # a producer whose records are not acknowledged so long is replaced by a new one
HOPELESS = (InvalidTimestampError, MessageSizeTooLargeError, RecordListTooLargeError)

Done = Callable[[], object]
Wanted = Callable[[], bool]


class Queued(NamedTuple):
    """One event as Kafka gets it, and who wants to know when it has."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int | None
    done: Done | None
    wanted: Wanted | None

    @property
    def size(self) -> int:
        """What it counts for."""
        return len(self.key) + len(self.value) + OVERHEAD_BYTES


class EventQueue:
    """Takes events without ever waiting, and gives them to Kafka in the background until it has them.

    What Kafka does not acknowledge is sent again, so an event may be there twice; the join takes it once. When more
    than ``most_bytes`` wait, as after a while without Kafka, further ones are refused and counted.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.most_bytes = settings, MOST_BYTES
        self.refused = 0  # events that there was no room for
        self.delivered = 0
        self.lost = 0  # events that Kafka will never take
        self.waiting_bytes = 0
        self.connected = False  # whether the newest events could be sent
        self._codec, self._topics = Codec(), Topics.of(settings)
        self._own_time = settings.timestamps == "CreateTime"
        self._backlog: deque[Queued] = deque()
        self._said_away = False
        self._lock, self._news, self._closing = Lock(), Signal(), Signal()
        self._thread = Thread(target=self._run, name="event-queue", daemon=True)
        self._thread.start()

    def offer(self, events: Sequence[Event], done: Done | None = None, wanted: Wanted | None = None) -> bool:
        """Take all of ``events`` or, when there is no room, none; ``done`` is called for each that Kafka has.

        Those that are no longer ``wanted`` are dropped unless they are on their way already.
        """
        some = [self._queued(event, done, wanted) for event in events]
        size = sum(one.size for one in some)
        with self._lock:
            if self.waiting_bytes + size > self.most_bytes:
                self.refused += len(some)
                return False
            self.waiting_bytes += size
            self._backlog.extend(some)
        self._news.set()
        return True

    def close(self, timeout_s: float = 10.0) -> None:
        """Deliver what is left, for so long; what is not is counted as lost."""
        end = time.monotonic() + timeout_s
        while self.waiting_bytes and time.monotonic() < end:
            time.sleep(0.01)
        self._closing.set()
        self._news.set()
        self._thread.join(timeout=timeout_s)
        if self._backlog:
            self.lost += len(self._backlog)
            log.error("%d events did not reach Kafka at %s and are lost", len(self._backlog), self.settings.kafka)

    def _queued(self, event: Event, done: Done | None, wanted: Wanted | None) -> Queued:
        if isinstance(event, Impression):
            topic, at_ms = self._topics.impressions, event.shown_at_ms
        else:
            topic, at_ms = self._topics.clicks, event.clicked_at_ms
        key = event.session_id.encode()
        return Queued(topic, key, self._codec.encode(event), at_ms if self._own_time else None, done, wanted)

    def _run(self) -> None:
        while not self._closing.is_set():
            to = self._connect()
            self._drop_unwanted()
            if to is None:
                self._closing.wait(AGAIN_S)
                continue
            self.connected = True
            self._news.set()  # what came back from the producer before
            while self.connected and not self._closing.is_set():
                self._news.wait()
                self._news.clear()
                self._send_all(to)
            self.connected = False
            to.close(timeout=1)  # what it still had comes back

    def _connect(self) -> KafkaProducer | None:
        options = {
            "allow_auto_create_topics": False,  # with the broker's default partitions the two topics would not match
            "linger_ms": 2,
            "batch_size": 1 << 17,
            "max_block_ms": BLOCK_MS,
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "delivery_timeout_ms": GIVE_UP_MS,
            "request_timeout_ms": GIVE_UP_MS // 2,
        }
        try:
            return producer(self.settings, **options)
        except KafkaError as error:
            self._say_away(error)
            return None

    def _drop_unwanted(self) -> None:
        with self._lock:
            kept = deque(one for one in self._backlog if one.wanted is None or one.wanted())
            self.waiting_bytes -= sum(one.size for one in self._backlog) - sum(one.size for one in kept)
            self._backlog = kept

    def _send_all(self, to: KafkaProducer) -> None:
        while self._backlog and self.connected:
            one = self._backlog.popleft()  # only this thread takes
            try:
                sent = to.send(one.topic, one.value, key=one.key, timestamp_ms=one.timestamp_ms)
            except KafkaError as error:
                self._failed(one, error)
            else:
                sent.add_callback(self._has, one)
                sent.add_errback(self._failed, one)

    def _has(self, one: Queued, _: object) -> None:
        with self._lock:
            self.waiting_bytes -= one.size
            self.delivered += 1
        self._said_away = False
        if one.done is not None:
            one.done()

    def _failed(self, one: Queued, error: Exception) -> None:
        """Keep what may be sent again, by another producer: after one refusal kafka-python refuses all."""
        hopeless = isinstance(error, HOPELESS)
        with self._lock:
            if hopeless:
                self.waiting_bytes -= one.size
                self.lost += 1
            else:
                self._backlog.append(one)
                self.connected = False
        if hopeless:
            log.error("an event of %s is lost: %s", one.topic, error)
        else:
            self._say_away(error)
        self._news.set()

    def _say_away(self, error: Exception) -> None:
        """Say once, until Kafka takes an event again, that events wait."""
        if not self._said_away:
            self._said_away = True
            words = "events wait for Kafka at %s, up to %d MB: %s; does it run, and are there topics? glimpse topics"
            log.warning(words, self.settings.kafka, MOST_BYTES >> 20, error)
