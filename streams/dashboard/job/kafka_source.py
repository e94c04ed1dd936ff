"""Looks at a live broker: assign and seek only, so that no group ever notices.

Parameters and dead letters are read whole. Of samples an even share of each partition is read when there are too many,
and each record then stands for others. Of the events only some partitions are read when there are too many: a session's
impressions and clicks share a partition number, so a few partitions are a fair sample of whole sessions; and if a
single one is still too much, its impressions are read for some seconds at a time.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from streams.broker import describe_topics
from streams.dashboard.job.piece_reader import ANSWER_MS, PieceReader, clients
from streams.dashboard.pieces import Piece, TokenBucket, spread, that_fit, thinned, whole
from streams.dashboard.source import LogUpdate
from streams.logs import SourceAway
from streams.settings import EVENTS, TOPICS, Settings

HISTORY_S, HISTORY_BYTES = 86_400.0, 16 << 20  # of samples and letters read at the start, and a poll's share of it
HISTORY_SAMPLES, HISTORY_SAMPLE_BYTES, HISTORY_PIECES = 20_000, 128 << 20, 4_000  # of which pieces are read, if more
BYTES_PER_S = 1 << 20  # of samples
HISTORY_LETTERS = 20_000
NEWEST_EVENTS = 2_000  # of each event topic, read at the start when all are old
SLACK_S, REACH_S = 60.0, 3_600.0  # events are read from beyond the horizon on, and not from before an hour
LETTERS_PER_S, PARAMETERS = 500, 20_000  # of more, the newest are read
FADE = 0.9
SAVED_S = 30.0  # of events that were not read
EVENT_PARTITIONS = 16  # whose events are read at most: each costs something, however little is in it
SEARCH_S, SEARCH_SOON_S = 60.0, 5.0  # between two questions for topics; soon while some are missing or refused
MINUTE_MS = 60_000
PAST_MS = [*(hour * 60 * MINUTE_MS for hour in range(24, 2, -2)), *(m * MINUTE_MS for m in range(120, 30, -5))]
PAST_MS += [minute * MINUTE_MS for minute in range(30, -1, -1)]

Offsets = dict[TopicPartition, int]


class KafkaFollower:
    """Reads the pipeline's topics without joining a group, committing or writing anything.

    Of more than ``samples_per_s`` an even share is read; of more than ``events_per_s`` the rest is passed over.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        samples_per_s: int = 60,
        events_per_s: int = 600,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._clock = settings, clock
        self.name = f"Kafka at {settings.kafka}"
        self._samples_per_s, self._events_per_s = samples_per_s, events_per_s
        self._allowed = {topic: TokenBucket(events_per_s * SAVED_S / len(EVENTS)) for topic in EVENTS}
        self._chance = random.Random(0)
        self._topics = {settings.topic_prefix + topic: topic for topic in TOPICS}
        self._asker: Any = None  # assigned to all and never polled: a consumer forgets where its other topics are
        self._admin: Any = None  # tells missing topics from refused ones
        self._decided: Offsets = {}  # what was decided up to; kept while the broker or a right is away
        self._reader = PieceReader(self._topics)
        self._ends: Offsets = {}  # of what may be read
        self._ids: dict[str, str] = {}
        self._skipped: Counter[str] = Counter()
        self._history_share = 1.0
        self._lately = (1.0, 1.0)  # offsets of samples that were decided on and that there were, fading
        self._gap_from: int | None = None  # the time of the last poll that read all impressions
        self._missing: tuple[str, ...] = ()
        self._refused: tuple[str, ...] = ()
        self._chosen: set[int] = set()  # partitions whose events are read
        self._in_history = False  # reading what was there before this page
        self._polled_at = self._searched_at = 0.0

    def poll(self) -> LogUpdate:
        """Return what was added since the last poll, or raise SourceAway; the next poll connects again."""
        try:
            try:
                return self._poll()
            except TopicAuthorizationFailedError:  # a right was taken away; the other topics may still be read
                self.close()
                return self._poll()
        except (KafkaError, KeyError) as error:  # kafka-python leaves out partitions that have no leader yet
            self.close()
            words = f"no answer about {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
            raise SourceAway(f"{self.name} cannot be read: {words}") from error

    def close(self) -> None:
        """Let go of the broker."""
        for client in (self._reader.consumer, self._asker, self._admin):
            if client is not None:
                client.close()
        self._reader.consumer = self._asker = self._admin = None

    def _poll(self) -> LogUpdate:
        now = self._clock()
        if self._admin is None:
            self._reader.consumer, self._asker, self._admin = clients(self._settings)
            self._search()
        elif now - self._searched_at > (SEARCH_SOON_S if self._missing or self._refused else SEARCH_S):
            self._search()
        before, self._skipped = self._ends, Counter()
        self._ends = self._asker.end_offsets(list(self._asker.assignment()), timeout_ms=ANSWER_MS)
        elapsed = min(max(now - self._polled_at, 0.5), 30.0)
        for partition, end in self._ends.items():
            if end < self._decided.get(partition, 0):  # deleted and made again
                self._decided[partition] = 0
                self._reader.pieces.pop(partition, None)
        past = self._begin(now)
        if past is None:
            self._choose({partition: before.get(partition, end) for partition, end in self._ends.items()}, elapsed)
        gap = self._decide(now, elapsed, first=past is not None)
        self._polled_at = now
        self._reader.read(self._of("parameters", "dead-letters"), most_bytes=HISTORY_BYTES)
        self._reader.read(self._of("samples"), most_bytes=HISTORY_BYTES)
        self._in_history = self._in_history and bool(self._of("parameters", "dead-letters", "samples"))
        self._reader.read(self._of(*EVENTS))
        ends: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for partition, end in self._ends.items():
            ends[self._topics[partition.topic]][partition.partition] = end
        return LogUpdate(
            int(now * 1000),
            self._reader.handed_out(),
            ends,
            self._skipped,
            self._missing,
            self._refused,
            behind=self._in_history,
            sampled=(len(self._chosen), len(ends.get("impressions", {}))),
            gap=gap,
            share=self._lately[0] / self._lately[1],
            history_share=self._history_share,
            past=past or [],
        )

    def _search(self) -> None:
        """Ask which topics there are and which of them may be read."""
        self._searched_at = self._clock()
        descriptions = describe_topics(self._admin, self._topics)
        self._missing = tuple(name for name in self._topics if name not in descriptions)
        self._refused = tuple(name for name in self._topics if name in descriptions and not descriptions[name].readable)
        readable = {name: topic for name, topic in descriptions.items() if topic.readable}
        for name, topic in readable.items():
            if self._ids.setdefault(name, topic.topic_id) != topic.topic_id:  # deleted and made again
                for partition in [partition for partition in self._decided if partition.topic == name]:
                    del self._decided[partition]
                    self._reader.pieces.pop(partition, None)
                self._ids[name] = topic.topic_id
        self._asker.assign(
            [TopicPartition(name, number) for name, topic in readable.items() for number in range(topic.partitions)]
        )

    def _begin(self, now: float) -> list[tuple[int, dict[str, int]]] | None:
        """Decide what to read of partitions that were never read: some history, and the newest events.

        Returns how far their topics had grown at times of the past, as the time stamps of their records tell; None when
        there are none.
        """
        fresh = [partition for partition in self._ends if partition not in self._decided]
        if not fresh:
            return None
        now_ms = int(now * 1000)
        begins = self._asker.beginning_offsets(fresh, timeout_ms=ANSWER_MS)
        past = [(now_ms - ago_ms, self._offsets_at(fresh, now_ms - ago_ms)) for ago_ms in PAST_MS]
        since = self._offsets_at(fresh, int((now - HISTORY_S) * 1000))
        for partition in fresh:
            topic = self._topics[partition.topic]
            if topic == "samples":
                continue  # begun below, which asks the broker: what fails there begins again
            if topic == "parameters":
                start = 0
            elif topic == "dead-letters":
                start = max(since[partition], self._ends[partition] - HISTORY_LETTERS // len(self._of_topic(topic)))
            else:
                start = self._ends[partition]
            self._decided[partition] = max(start, begins[partition])
        self._begin_samples(
            [partition for partition in fresh if self._topics[partition.topic] == "samples"], since, past
        )
        self._begin_events([partition for partition in fresh if self._topics[partition.topic] in EVENTS], begins, past)
        self._in_history = True
        return [(at_ms, self._by_topic(offsets)) for at_ms, offsets in past]

    def _by_topic(self, offsets: Offsets) -> Counter[str]:
        """Return the sums over the partitions of each topic."""
        sums: Counter[str] = Counter()
        for partition, offset in offsets.items():
            sums[self._topics[partition.topic]] += offset
        return sums

    def _offsets_at(self, partitions: list[TopicPartition], at_ms: int) -> Offsets:
        """Return each partition's first offset that is not older than a time, its end for none."""
        offsets = (
            self._asker.offsets_for_times(dict.fromkeys(partitions, at_ms), timeout_ms=ANSWER_MS) if partitions else {}
        )
        return {
            partition: self._ends[partition] if offsets.get(partition) is None else offsets[partition].offset
            for partition in partitions
        }

    def _begin_samples(self, fresh: list[TopicPartition], since: Offsets, past: list[tuple[int, Offsets]]) -> None:
        """Read all of the history, or pieces of it that lie as dense as its times are shown."""
        span = sum(self._ends[partition] - since[partition] for partition in fresh)
        if span > HISTORY_SAMPLES // 10:
            self._probe(fresh)
        share = self._history_share = self._share_of(span, HISTORY_SAMPLE_BYTES, HISTORY_SAMPLES)
        for partition in fresh:
            bounds = sorted({since[partition], *(max(since[partition], offsets[partition]) for _, offsets in past)})
            self._reader.pieces[partition] = spread(
                [*bounds, self._ends[partition]], share, HISTORY_PIECES // len(fresh), self._chance
            )
            self._decided[partition] = self._ends[partition]

    def _probe(self, partitions: list[TopicPartition]) -> None:
        """Look at the newest samples for their size."""
        filled = [partition for partition in partitions if self._ends[partition]]
        for partition in filled:
            self._reader.pieces[partition] = deque([Piece(max(0, self._ends[partition] - 4), self._ends[partition])])
        self._reader.read(filled)
        self._reader.handed_out()

    def _share_of(self, span: int, most_bytes: float, most_records: float) -> float:
        """Return the share of so many offsets of samples that may be read."""
        if self._reader.sizes is None:
            return 1.0
        size, density = self._reader.sizes
        return min(1.0, most_bytes / max(1.0, span * size), most_records / max(1.0, span * density))

    def _begin_events(self, fresh: list[TopicPartition], begins: Offsets, past: list[tuple[int, Offsets]]) -> None:
        """Begin impressions and clicks at one time: as long ago as a click may matter, or as few enough were since."""
        if not fresh:
            return
        now_ms = past[-1][0]
        if not self._chosen:
            recent = {partition: offset for partition, offset in past[-2][1].items() if partition in fresh}
            self._choose(recent, (now_ms - past[-2][0]) / 1000)
        chosen = [partition for partition in fresh if partition.partition in self._chosen]
        reach_ms = round(min(self._settings.horizon_s + SLACK_S, REACH_S) * 1000)
        starts = {partition: self._ends[partition] for partition in chosen}
        for at_ms, offsets in reversed(past):
            since = self._by_topic({partition: self._ends[partition] - offsets[partition] for partition in chosen})
            if any(span > self._allowed[topic].most for topic, span in since.items()):
                break
            starts = {partition: offsets[partition] for partition in chosen}
            if at_ms < now_ms - reach_ms:
                break
        if not any(past[0][1][partition] < self._ends[partition] for partition in chosen):  # a log that was loaded
            each = NEWEST_EVENTS * len(EVENTS) // max(1, len(chosen))
            starts = {partition: self._ends[partition] - each for partition in chosen}
        self._decided |= {partition: max(start, begins[partition]) for partition, start in starts.items()}

    def _decide(self, now: float, elapsed: float, *, first: bool) -> tuple[int, int] | None:
        """Decide which of the new offsets are read; return the time over which impressions are passed over."""
        wanted = {
            partition: self._topics[partition.topic] not in EVENTS or partition.partition in self._chosen
            for partition in self._ends
        }
        spans = self._by_topic(
            {
                partition: self._ends[partition] - self._decided[partition]
                for partition in self._ends
                if wanted[partition]
            }
        )
        share = self._share_of(spans["samples"], BYTES_PER_S * elapsed, self._samples_per_s * elapsed)
        if spans["samples"]:
            chosen, all_ = self._lately
            self._lately = FADE * chosen + share * spans["samples"], FADE * all_ + spans["samples"]
        taken = dict.fromkeys(EVENTS, True)
        if not first:  # what a page begins with was chosen to fit
            earned, clicks = self._events_per_s * elapsed, spans["clicks"]
            taken["clicks"] = self._allowed["clicks"].takes(clicks, earned=earned / 2)
            earned -= clicks * taken["clicks"]
            taken["impressions"] = self._allowed["impressions"].takes(spans["impressions"], earned=earned)
        for partition, end in self._ends.items():
            topic, start = self._topics[partition.topic], self._decided[partition]
            if topic == "samples":
                self._reader.add(partition, thinned(start, end, share, self._chance))
            elif topic not in EVENTS:
                if topic != "late-clicks":
                    self._reader.add(partition, whole(self._newest(partition, topic, start, end, elapsed), end))
            elif wanted[partition] and taken[topic]:
                self._reader.add(partition, whole(start, end))
            elif wanted[partition]:
                self._skipped[topic] += end - start
            self._decided[partition] = end
        now_ms = int(now * 1000)
        gap = None if taken["impressions"] or self._gap_from is None else (self._gap_from, now_ms)
        self._gap_from = now_ms if taken["impressions"] or self._gap_from is None else self._gap_from
        return gap

    def _newest(self, partition: TopicPartition, topic: str, start: int, end: int, elapsed: float) -> int:
        """Return from where on dead letters or parameters are read: from the start, unless there are far too many."""
        if self._in_history:
            return start
        most = PARAMETERS if topic == "parameters" else int(LETTERS_PER_S * elapsed) // len(self._of_topic(topic)) + 1
        if end - start > most:
            self._skipped[topic] += end - start - most
        return max(start, end - most)

    def _of_topic(self, topic: str) -> list[TopicPartition]:
        return [partition for partition in self._ends if self._topics[partition.topic] == topic]

    def _of(self, *topics: str) -> list[TopicPartition]:
        """Return the partitions of which something is to be read."""
        return [
            partition
            for partition in self._ends
            if self._topics[partition.topic] in topics and self._reader.pieces.get(partition)
        ]

    def _choose(self, before: Offsets, elapsed: float) -> None:
        """Choose as many partitions of events as may be read: fewer when there is too much, more when there is room."""
        rates: defaultdict[int, float] = defaultdict(float)
        for partition, end in self._ends.items():
            if self._topics[partition.topic] in EVENTS:
                rates[partition.partition] += max(0, end - before.get(partition, end)) / elapsed
        busy = sum(rates[number] for number in self._chosen if number in rates)
        most = min(len(rates), EVENT_PARTITIONS)
        enough = len(self._chosen) == most or busy > self._events_per_s / 4
        if self._chosen and busy <= self._events_per_s and enough:
            return
        room = self._events_per_s / 2 if before else float("inf")  # to grow before the next choice
        chosen = that_fit(rates, most=most, per_s=room)
        for partition in self._ends:
            if (
                partition.partition in chosen - self._chosen
                and self._chosen
                and self._topics[partition.topic] in EVENTS
            ):
                self._decided[partition] = self._ends[partition]  # begin with what comes now, as its clicks come later
        self._chosen = chosen
