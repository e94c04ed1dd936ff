"""Events on their way to Kafka, from who cannot wait for it: a queue that is bounded while Kafka is away."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from operator import attrgetter
from threading import Event as Signal
from threading import Lock, Thread
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.errors import InvalidTimestampError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from schemas.records import Impression
from streams.broker import let_go, producer
from streams.events.events import Event
from streams.events.reader import codec_of
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

MOST_BYTES = 64 << 20
OVERHEAD_BYTES = 400  # of one event in the producer's memory, beside its bytes
AGAIN_S = 0.5
GATHER_S = 0.002  # from the first event on, for the next ones: waking the thread for each would slow requests down
GIVE_UP_MS = 10_000  # a producer whose records are not acknowledged so long is replaced by a new one
OPTIONS = {
    "allow_auto_create_topics": False,  # with the broker's default partitions the two topics would not match
    "linger_ms": 0,  # events have gathered
    "batch_size": 1 << 17,
    "max_block_ms": 200,  # for what a send may have to learn of the topics
    "bootstrap_timeout_ms": 3000,
}
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
    number: int  # its turn

    @property
    def size(self) -> int:
        """What it counts for."""
        return len(self.key) + len(self.value) + OVERHEAD_BYTES


class EventQueue:
    """Takes events without ever waiting, and gives them to Kafka in the background until it has them.

    What Kafka does not acknowledge is sent again, before what was offered later: a session's events keep their order.
    So an event may be there twice; the join takes it once. When more than ``most_bytes`` wait, as after a while without
    Kafka, further ones are refused and counted.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.most_bytes = settings, MOST_BYTES
        self.refused = self.delivered = self.waiting_bytes = 0  # refused: there was no room
        self.lost = 0  # events that Kafka will never take
        self._codec, self._topics = codec_of(settings), Topics.of(settings)
        self._own_time = settings.timestamps == "CreateTime"
        self._backlog: deque[Queued] = deque()
        self._unanswered = 0  # records that a producer has and Kafka has not acknowledged
        self._producer: KafkaProducer | None = None  # None from its first failure on
        self._numbers = count()
        self._said_away = False
        self._lock, self._news, self._closing = Lock(), Signal(), Signal()
        self._thread = Thread(target=self._run, name="event-queue", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        """Whether the newest events could be sent."""
        return self._producer is not None

    def offer(self, events: Sequence[Event], done: Done | None = None, wanted: Wanted | None = None) -> bool:
        """Take all of ``events`` or, when there is no room, none; ``done`` is called for each that Kafka has.

        Those that are no longer ``wanted`` are dropped unless they are on their way already.
        """
        some = [self._queued(event, done, wanted) for event in events]
        size = sum(queued.size for queued in some)
        with self._lock:
            if self.waiting_bytes + size > self.most_bytes:
                self.refused += len(some)
                return False
            self.waiting_bytes += size
            self._backlog.extend(some)
        if not self._news.is_set():  # else the thread has yet to look
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
        with self._lock:
            left = len(self._backlog) + self._unanswered
            self.lost += left
        if left:
            log.error("%d events did not reach Kafka at %s and are lost", left, self.settings.kafka)

    def _queued(self, event: Event, done: Done | None, wanted: Wanted | None) -> Queued:
        topic = self._topics.impressions if isinstance(event, Impression) else self._topics.clicks
        key, at_ms = event.session_id.encode(), event.at_ms if self._own_time else None
        return Queued(topic, key, self._codec.encode(event), at_ms, done, wanted, next(self._numbers))

    def _run(self) -> None:
        while not self._closing.is_set():
            to: KafkaProducer | None = None
            patience = {"delivery_timeout_ms": GIVE_UP_MS, "request_timeout_ms": GIVE_UP_MS // 2}
            try:
                to = producer(self.settings, **OPTIONS, **patience)
            except KafkaError as error:
                self._say_away(error)
            self._put_in_order()
            if to is None:
                self._closing.wait(AGAIN_S)
                continue
            self._producer = to
            self._news.set()  # what came back from the producer before
            while self.connected and not self._closing.is_set():
                self._news.wait()
                time.sleep(GATHER_S)
                self._news.clear()
                self._send_all(to)
            self._producer = None
            let_go(to)  # what it still had comes back
            while self._unanswered and not self._closing.wait(0.01):
                pass

    def _put_in_order(self) -> None:
        """Drop what is not wanted any more, and sort what came back from the last producer before what came later."""
        with self._lock:
            kept = [queued for queued in self._backlog if queued.wanted is None or queued.wanted()]
            self.waiting_bytes -= sum(queued.size for queued in self._backlog) - sum(queued.size for queued in kept)
            self._backlog = deque(sorted(kept, key=attrgetter("number")))

    def _send_all(self, to: KafkaProducer) -> None:
        while self.connected:
            with self._lock:
                if not self._backlog:
                    return
                queued = self._backlog.popleft()
                self._unanswered += 1
            try:
                sent = to.send(queued.topic, queued.value, key=queued.key, timestamp_ms=queued.timestamp_ms)
            except KafkaError as error:
                self._failed(to, queued, error)
            else:
                sent.add_callback(self._has, queued)
                sent.add_errback(self._failed, to, queued)

    def _has(self, queued: Queued, _: object) -> None:
        with self._lock:
            self._unanswered -= 1
            self.waiting_bytes -= queued.size
            self.delivered += 1
        self._said_away = False
        if queued.done is not None:
            queued.done()

    def _failed(self, to: KafkaProducer, queued: Queued, error: Exception) -> None:
        """Keep what may be sent again, by another producer: this one would send later events first."""
        hopeless = isinstance(error, HOPELESS)
        if hopeless:
            log.error("an event of %s is lost: %s", queued.topic, error)
        else:
            if self.connected:
                let_go(to)
            self._say_away(error)
        with self._lock:
            self._unanswered -= 1
            if hopeless:
                self.waiting_bytes -= queued.size
                self.lost += 1
            else:
                self._backlog.append(queued)
                self._producer = None
        self._news.set()

    def _say_away(self, error: Exception) -> None:
        """Say once, until Kafka takes an event again, that events wait."""
        if not self._said_away:
            self._said_away = True
            words = "events wait for Kafka at %s, up to %d MB: %s; does it run, and are there topics? glimpse topics"
            log.warning(words, self.settings.kafka, MOST_BYTES >> 20, error)
