"""A reader of pieces of partitions: what a source has decided on, as far as there is time."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from streams.broker import admin_client, consumer
from streams.dashboard.pieces import Piece
from streams.dashboard.source import WeightedRecord
from streams.logs import LogRecord
from streams.settings import Settings

ANSWER_MS = 5_000


class PieceReader:
    """Reads pieces one after another with a consumer of the caller's; what is left is read the next time.

    ``topics`` has the short names of the topics by their full names.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.consumer: Any = None
        self.pieces: defaultdict[TopicPartition, deque[Piece]] = defaultdict(deque)  # decided and not read yet
        self.sizes: tuple[float, float] | None = None  # of the samples: bytes and records an offset, about
        self._topics = topics
        self._entries: defaultdict[str, list[WeightedRecord]] = defaultdict(list)  # read and not handed out yet

    def add(self, partition: TopicPartition, pieces: Sequence[Piece]) -> None:
        """Note what is to be read of a partition, after what was noted before."""
        self.pieces[partition].extend(pieces)

    def handed_out(self) -> dict[str, list[WeightedRecord]]:
        """Return what was read since the last time, by topic."""
        entries, self._entries = self._entries, defaultdict(list)
        return entries

    def read(self, partitions: list[TopicPartition], *, most_bytes: int = 1 << 62) -> None:
        """Read the pieces of ``partitions``, or so many bytes of them; the rest is left for the next poll."""
        if not partitions:
            return
        self.consumer.assign(partitions)  # and never paused: 3.0.12 does not read on what was paused half-way
        for partition in partitions:
            self.consumer.seek(partition, self.pieces[partition][0].start)
        left, silent = set(partitions), 0
        give_up_at = time.monotonic() + ANSWER_MS / 1000
        while left and most_bytes > 0 and time.monotonic() < give_up_at:
            batches = self.consumer.poll(timeout_ms=100, max_records=500)
            for partition, records in batches.items():
                if partition in left:
                    most_bytes -= self._take(partition, records)
            silent = 0 if batches else silent + 1
            if (
                silent % 3 == 2
            ):  # transactions' markers, perhaps; asked rarely, each answer is a walk over all partitions
                for partition in left:
                    self._advance(partition, self.consumer.position(partition, timeout_ms=ANSWER_MS))
            left = {partition for partition in left if self.pieces[partition]}

    def _take(self, topic_partition: TopicPartition, records: list[Any]) -> int:
        """Keep those of the records that belong to the piece being read; return their bytes."""
        piece, topic = self.pieces[topic_partition][0], self._topics[topic_partition.topic]
        inside = [record for record in records if record.offset < piece.stop]
        self._entries[topic] += [
            WeightedRecord(
                topic_partition.partition, LogRecord(each.offset, each.timestamp, each.key, each.value), piece.weight
            )
            for each in inside
        ]
        size = sum(len(record.value or b"") for record in inside)
        if topic == "samples" and inside:
            span = min(records[-1].offset + 1, piece.stop) - piece.start
            dense, density = self.sizes or (size / span, len(inside) / span)
            self.sizes = dense + 0.05 * (size / span - dense), density + 0.05 * (len(inside) / span - density)
        self._advance(topic_partition, records[-1].offset + 1)
        return size

    def _advance(self, partition: TopicPartition, offset: int) -> None:
        """Go on to ``offset``, or to the next piece."""
        pieces = self.pieces[partition]
        if offset < pieces[0].stop:
            pieces[0] = pieces[0]._replace(start=max(offset, pieces[0].start))
            return
        pieces.popleft()
        if pieces:
            self.consumer.seek(partition, pieces[0].start)


def clients(settings: Settings) -> tuple[KafkaConsumer, KafkaConsumer, KafkaAdminClient]:
    """Return a consumer to read with, one to ask for offsets with, and an admin client; none of them in a group."""
    name = "glimpse-dashboard"
    client = {"bootstrap_timeout_ms": ANSWER_MS, "client_id": name, "reconnect_backoff_max_ms": 2_000}
    options: dict[str, Any] = client | {
        "auto_offset_reset": "earliest",
        "allow_auto_create_topics": False,
        "max_partition_fetch_bytes": 1 << 18,  # small, so that each partition gets its turn; a record may be larger
        "fetch_max_wait_ms": 100,  # only asked when there is something; a longer wait would hold up the next poll
        "metrics_enabled": False,
    }
    with ExitStack() as made:
        reader = consumer(settings, **options)
        made.callback(reader.close)
        asker = consumer(settings, **options)
        made.callback(asker.close)
        admin = admin_client(settings, **client, request_timeout_ms=ANSWER_MS)
        made.pop_all()
    return reader, asker, admin
