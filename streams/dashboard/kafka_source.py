"""A live broker in, looks out: assign and seek only, so that no group ever notices.

Samples, parameters and dead letters are read whole, within a number of bytes a second. Of the events only some
partitions are read when there are too many: a session's impressions and clicks share a partition number, so a few
partitions are a fair sample of whole sessions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from streams.dashboard.source import TOPICS, Entry, Look
from streams.parameters import SourceAway
from streams.settings import Settings
from streams.topics import described

WHOLE = ("samples", "parameters", "dead-letters")
EVENTS = ("impressions", "clicks")
ANSWER_MS = 5_000
RECENT_EVENTS = 2_000  # of each event topic, read at the start
HISTORY_BYTES = 16 << 20  # a look's share of the history
EVENT_PARTITIONS = 16  # whose events are read at most: each costs something, however little is in it
SEARCH_S, SEARCH_SOON_S = 60.0, 5.0  # between two questions for topics; soon while some are missing or refused
MINUTE_MS = 60_000
PAST_MS = [*(hour * 60 * MINUTE_MS for hour in range(24, 2, -2)), *(m * MINUTE_MS for m in range(120, 30, -5))]
PAST_MS += [minute * MINUTE_MS for minute in range(30, -1, -1)]

Places = dict[TopicPartition, int]


class KafkaSource:
    """Reads the pipeline's topics without joining a group, committing or writing anything.

    Parameters
    ----------
    settings
        Where Kafka is and what its topics are called.
    history_s
        How far back samples and dead letters are read at the start.
    bytes_per_s, events_per_s
        What is read at most; the rest is passed over and counted.
    clock
        Wall time in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        history_s: float = 86_400.0,
        bytes_per_s: int = 2 << 20,
        events_per_s: int = 600,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._history_s, self._bytes_per_s, self._events_per_s = history_s, bytes_per_s, events_per_s
        self._topics = {settings.topic_prefix + topic: topic for topic in TOPICS}
        self._consumer: Any = None  # assigned to what is read just now
        self._asker: Any = None  # assigned to all and never polled: a consumer forgets where its other topics are
        self._admin: Any = None  # tells missing topics from refused ones
        self._places: Places = {}  # the next offset to read; kept while the broker or a right is away
        self._ends: Places = {}  # of what may be read
        self._entries: dict[str, list[Entry]] = {}  # read and not handed out yet
        self._ids: dict[str, str] = {}
        self._skipped: dict[str, int] = {}
        self._missing: tuple[str, ...] = ()
        self._refused: tuple[str, ...] = ()
        self._chosen: set[int] = set()  # partitions whose events are read
        self._in_history = False  # reading what was there before this page
        self._looked_at = self._searched_at = 0.0

    @property
    def name(self) -> str:
        """The broker's address."""
        return f"Kafka at {self._settings.kafka}"

    def look(self) -> Look:
        """Return what was added since the last look, or raise SourceAway; the next look connects again."""
        try:
            try:
                return self._look()
            except TopicAuthorizationFailedError:  # a right was taken away; the other topics may still be read
                self.close()
                return self._look()
        except (KafkaError, KeyError) as error:  # kafka-python leaves out partitions that have no leader yet
            self.close()
            words = f"no answer about {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
            raise SourceAway(f"{self.name} cannot be read: {words}") from error

    def close(self) -> None:
        """Let go of the broker."""
        for client in (self._consumer, self._asker, self._admin):
            if client is not None:
                client.close()
        self._consumer = self._asker = self._admin = None

    def _look(self) -> Look:
        now = self._clock()
        if self._admin is None:
            self._connect()
        elif now - self._searched_at > (SEARCH_SOON_S if self._missing or self._refused else SEARCH_S):
            self._search()
        before = self._ends
        self._ends = self._asker.end_offsets(list(self._asker.assignment()), timeout_ms=ANSWER_MS)
        past = self._begin(now)
        self._follow_recreated()
        elapsed = min(max(now - self._looked_at, 0.5), 30.0)
        self._looked_at = now
        self._choose(before, elapsed)
        self._skipped = {}
        whole = self._wanted(WHOLE, self._ends)
        size = HISTORY_BYTES if self._in_history else int(self._bytes_per_s * elapsed)
        self._read(whole, most_bytes=size, skip=not self._in_history)
        self._in_history = self._in_history and bool(self._wanted(WHOLE, self._ends))
        events = self._wanted(EVENTS, [place for place in self._ends if place.partition in self._chosen])
        self._read(events, most_records=int(self._events_per_s * elapsed), skip=True)
        ends: dict[str, dict[int, int]] = {}
        for place, end in self._ends.items():
            ends.setdefault(self._topics[place.topic], {})[place.partition] = end
        entries, self._entries = self._entries, {}
        return Look(
            int(now * 1000),
            entries,
            ends,
            self._skipped,
            self._missing,
            self._refused,
            behind=self._in_history,
            sampled=(len(self._chosen), len(ends.get("impressions", {}))),
            past=past,
        )

    def _connect(self) -> None:
        client = self._settings.kafka_client() | {
            "bootstrap_timeout_ms": ANSWER_MS,
            "client_id": "glimpse-dashboard",
            "reconnect_backoff_max_ms": 2_000,
        }
        options = client | {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "allow_auto_create_topics": False,
            "max_partition_fetch_bytes": 1 << 18,  # small, so that each partition gets its turn; a record may be larger
            "fetch_max_wait_ms": 100,  # only asked when there is something; a longer wait would hold up the next look
            "metrics_enabled": False,
        }
        self._consumer = KafkaConsumer(**options)
        self._asker = KafkaConsumer(**options)
        self._admin = KafkaAdminClient(**client, request_timeout_ms=ANSWER_MS)
        self._search()

    def _search(self) -> None:
        """Ask which topics there are and which of them may be read."""
        self._searched_at = self._clock()
        found = described(self._admin, self._topics)
        self._missing = tuple(name for name in self._topics if name not in found)
        self._refused = tuple(name for name in self._topics if name in found and not found[name].readable)
        readable = {name: topic for name, topic in found.items() if topic.readable}
        for name, topic in readable.items():
            if self._ids.setdefault(name, topic.topic_id) != topic.topic_id:  # deleted and made again
                self._places = {place: offset for place, offset in self._places.items() if place.topic != name}
                self._ids[name] = topic.topic_id
        self._asker.assign(
            [TopicPartition(name, number) for name, topic in readable.items() for number in range(topic.partitions)]
        )

    def _begin(self, now: float) -> list[tuple[int, dict[str, int]]]:
        """Set places that were never read: some history of what is read whole, and the newest events.

        Returns how far these had grown at times of the past.
        """
        fresh = [place for place in self._ends if place not in self._places]
        if not fresh:
            return []
        past = self._past(fresh, int(now * 1000))
        begins = self._asker.beginning_offsets(fresh, timeout_ms=ANSWER_MS)
        since = int((now - self._history_s) * 1000)
        timed = {place: since for place in fresh if self._topics[place.topic] in ("samples", "dead-letters")}
        found = self._asker.offsets_for_times(timed, timeout_ms=ANSWER_MS) if timed else {}
        places = {}
        for place in fresh:
            topic, end = self._topics[place.topic], self._ends[place]
            if topic == "parameters":
                start = begins[place]
            elif place in timed:
                start = found[place].offset if found.get(place) is not None else end
            else:
                copies = sum(1 for other in self._ends if other.topic == place.topic)
                start = end - RECENT_EVENTS // copies if topic in EVENTS else end
            places[place] = max(start, begins[place])
        self._places |= places
        self._in_history = True
        return past

    def _past(self, places: list[TopicPartition], now_ms: int) -> list[tuple[int, dict[str, int]]]:
        """Return how far each topic had grown at times of the past, as the time stamps of its records tell."""
        found = []
        for ago_ms in PAST_MS:
            at_ms = now_ms - ago_ms
            offsets = self._asker.offsets_for_times(dict.fromkeys(places, at_ms), timeout_ms=ANSWER_MS)
            sums: dict[str, int] = {}
            for place in places:
                at = offsets.get(place)
                topic = self._topics[place.topic]
                sums[topic] = sums.get(topic, 0) + (self._ends[place] if at is None else at.offset)
            found.append((at_ms, sums))
        return found

    def _follow_recreated(self) -> None:
        for place, end in self._ends.items():
            if end < self._places[place]:  # deleted and made again
                self._places[place] = 0

    def _choose(self, before: Places, elapsed: float) -> None:
        """Choose as many partitions of events as may be read: fewer when there is too much, more when there is room."""
        rates: dict[int, float] = {}
        for place, end in self._ends.items():
            if self._topics[place.topic] in EVENTS:
                more = max(0, end - before.get(place, end))
                rates[place.partition] = rates.get(place.partition, 0.0) + more / elapsed
        busy = sum(rates[number] for number in self._chosen if number in rates)
        most = min(len(rates), EVENT_PARTITIONS)
        enough = len(self._chosen) == most or busy > self._events_per_s / 4
        if self._chosen and busy <= self._events_per_s and enough:
            return
        chosen: set[int] = set()
        left = self._events_per_s / 2 if before else float("inf")  # with room to grow before the next choice
        for number in sorted(rates)[:most]:
            left -= rates[number]
            if chosen and left < 0:
                break
            chosen.add(number)
        for place in self._ends:
            if place.partition in chosen - self._chosen and self._chosen and self._topics[place.topic] in EVENTS:
                self._places[place] = self._ends[place]  # begin with what comes now, as its clicks come later
        self._chosen = chosen

    def _wanted(self, topics: Iterable[str], places: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [
            place for place in places if self._topics[place.topic] in topics and self._places[place] < self._ends[place]
        ]

    def _read(
        self,
        places: list[TopicPartition],
        *,
        skip: bool,
        most_bytes: int = 1 << 62,
        most_records: int = 1 << 62,
    ) -> None:
        """Read ``places`` up to their ends or the limits; with ``skip`` pass over the rest."""
        if not places:
            return
        self._consumer.assign(places)  # and never paused: 3.0.12 does not read on what was paused half-way
        for place in places:
            self._consumer.seek(place, self._places[place])
        left, silent = set(places), 0
        give_up_at = time.monotonic() + ANSWER_MS / 1000
        while left and most_bytes > 0 and most_records > 0 and time.monotonic() < give_up_at:
            batches = self._consumer.poll(timeout_ms=100, max_records=min(500, most_records))
            for place, records in batches.items():
                found = self._entries.setdefault(self._topics[place.topic], [])
                for record in records:
                    found.append(Entry(record.partition, record.offset, record.timestamp, record.key, record.value))
                    most_bytes -= len(record.value or b"")
                most_records -= len(records)
                self._places[place] = records[-1].offset + 1
            silent = 0 if batches else silent + 1
            if silent % 3 == 2:  # transactions' markers, perhaps; asked rarely, each answer is a walk over all places
                self._places |= {place: self._consumer.position(place, timeout_ms=ANSWER_MS) for place in left}
            left -= {place for place in left if self._places[place] >= self._ends[place]}
        if left and skip and (most_bytes <= 0 or most_records <= 0):
            for place in left:
                topic = self._topics[place.topic]
                self._skipped[topic] = self._skipped.get(topic, 0) + self._ends[place] - self._places[place]
                self._places[place] = self._ends[place]
