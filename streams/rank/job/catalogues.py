"""Where the catalogue comes from, a file or a compacted topic, and how a file gets onto that topic."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from learner.encoder import Encoder
from schemas.json_text import parse_json
from streams.broker import KafkaWriter, admin, catalogue_topic, consumer, create_topics, describe_topics
from streams.logs import SourceAway
from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.catalogue_file import CatalogueEntries, key_of, read_catalogue, read_entries
from streams.settings import Settings

log = logging.getLogger(__name__)

READ_S = 30.0  # for all of a topic
FETCH_BYTES = 8 << 20  # of the topic at once; a transaction may be longer
NAME = "glimpse-catalogue"  # a second writer of it ends what the first has not committed
OPEN_MS = 300_000  # how long writing may take, and how long one who is killed meanwhile holds back the next
IDLE_TIMES = 9  # as long as a catalogue took to make, the next one is not made, so that lists have the processor


class CatalogueFile:
    """A file, read again when it is replaced or written; while it is away the last one counts."""

    def __init__(self, file: Path, *, encoder: Encoder | None = None) -> None:
        self._file, self._encoder = file, encoder
        self._stamp: tuple[int, int, int] | None = None

    def newest(self) -> Catalogue | None:
        """Return what the file holds now, if it is another one than when last asked, or raise CatalogueError."""
        try:
            status = self._file.stat()
        except OSError as error:
            if self._stamp is not None:
                return None
            raise CatalogueError(f"{self._file} cannot be read: {error.strerror or error}") from error
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        return read_catalogue(self._file, encoder=self._encoder)

    def close(self) -> None:
        """Hold nothing."""


class CatalogueTopic:
    """A compacted topic with a line of a catalogue in each record, by key: the newest of each, read to the end.

    A record without a value takes its item or user out. What was written in one transaction is taken over at once, as a
    catalogue is only made where the committed records end. A record that is no line is left aside and told once.
    """

    def __init__(self, settings: Settings, *, encoder: Encoder | None = None) -> None:
        self.settings, self.topic = settings, catalogue_topic(settings).name
        self.entries = CatalogueEntries()
        self.unreadable = 0
        self._encoder = encoder
        self._partition = TopicPartition(self.topic, 0)
        self._reader: KafkaConsumer | None = None
        self._changed = False
        self._not_before = 0.0

    def newest(self) -> Catalogue | None:
        """Return the catalogue if lines have come, and all of them; the first time after waiting for them."""
        self.read(READ_S if self._reader is None else 0.0)
        if not self._changed or time.monotonic() < self._not_before or not self._at_end():
            return None
        began = time.monotonic()
        self._changed = False
        try:
            return self.entries.catalogue(encoder=self._encoder)
        except CatalogueError as error:
            raise CatalogueError(f"topic {self.topic}: {error}") from error
        finally:
            self._not_before = time.monotonic() + IDLE_TIMES * (time.monotonic() - began)

    def read(self, timeout_s: float) -> None:
        """Take what has come; wait for the end of the topic for so long."""
        give_up_at = time.monotonic() + timeout_s
        try:
            reader = self._open()
            while True:
                batches = reader.poll(timeout_ms=100 if timeout_s else 0)
                for records in batches.values():
                    for record in records:
                        self._take(record)
                if not batches and (not timeout_s or self._at_end()):
                    return
                if timeout_s and time.monotonic() > give_up_at:
                    raise SourceAway(f"topic {self.topic} was not read to its end within {timeout_s:g} s")
        except (KafkaError, SourceAway) as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> SourceAway:
        """Let go of a reader that failed; the next one begins anew."""
        self.close()
        return SourceAway(f"topic {self.topic} on Kafka at {self.settings.kafka} cannot be read: {error}")

    def _open(self) -> KafkaConsumer:
        if self._reader is None:
            with admin(self.settings) as client:
                if self.topic not in describe_topics(client, [self.topic]):
                    raise SourceAway("it is not there; publish a catalogue: glimpse catalogue FILE")
            self.entries, self._changed = CatalogueEntries(), False
            self._reader = consumer(self.settings, max_partition_fetch_bytes=FETCH_BYTES)
            self._reader.assign([self._partition])
            self._reader.seek_to_beginning()
        return self._reader

    def _at_end(self) -> bool:
        """Whether every committed record was read; readers of such are told the end of them."""
        assert self._reader is not None
        try:
            position, end = (
                self._reader.position(self._partition),
                self._reader.end_offsets([self._partition])[self._partition],
            )
        except KafkaError as error:
            raise self._away(error) from error
        return position is not None and bool(position >= end)

    def _take(self, record: Any) -> None:
        try:
            key = (record.key or b"").decode()
            if record.value is None:
                self.entries.remove(key)
            else:
                entry = parse_json(record.value)
                if isinstance(entry, dict) and key_of(entry) != key:
                    raise CatalogueError(f"its key is {key!r}, and should be {key_of(entry)!r}")
                self.entries.add(entry)
            self._changed = True
        except ValueError as error:
            if not self.unreadable:
                words = "a record of topic %s at offset %d is left aside, as are others like it: %s"
                log.warning(words, self.topic, record.offset, error)
            self.unreadable += 1

    def close(self) -> None:
        """Let go of connections."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close(autocommit=False, timeout_ms=2_000)


CatalogueSource = CatalogueFile | CatalogueTopic


class Published(NamedTuple):
    """What was done."""

    items: int
    users: int
    written: int
    removed: int


def publish_catalogue(settings: Settings, file: Path) -> Published:
    """Make the topic hold what a file does, creating it if need be; readers see all of it at once, or nothing.

    Only lines that differ are written; items and users that are not in the file any more are taken out.
    """
    entries = read_entries(file)
    topic = catalogue_topic(settings)
    create_topics(settings, [topic])
    with ExitStack() as begun:
        writer = KafkaWriter(settings, NAME, patience_ms=OPEN_MS, transaction_timeout_ms=OPEN_MS)
        begun.callback(writer.abandon)
        reader = begun.enter_context(closing(CatalogueTopic(settings)))
        reader.read(READ_S)
        known, wanted = reader.entries.lines(), entries.lines()
        changed = [key for key, line in wanted.items() if known.get(key) != line]
        gone = [key for key in known if key not in wanted]
        if changed or gone:
            writer.begin()
            for key in (*changed, *gone):
                value = wanted[key].encode() if key in wanted else None
                writer.send(topic.name, key=key.encode(), value=value, partition=0)
            writer.commit()
    return Published(len(entries.items), len(entries.users), len(changed), len(gone))
