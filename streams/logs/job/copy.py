"""Records between a broker and an archive: topics copied, an archive restored, and dead letters sent again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from rich.progress import Progress

from schemas.records import DeadLetter
from streams.broker import TopicsError, admin, await_sent, describe_topics, producer, stamps_of_any_time
from streams.logs.archive import BLOCK_BYTES, Archive, ArchivedLog, LogWriter
from streams.logs.block import LogBlock, LogRecord
from streams.logs.dead_letters import Refusal
from streams.logs.job.kafka_source import KafkaSource
from streams.logs.segment import ArchiveError
from streams.logs.source import RangeError, SourceAway
from streams.settings import EVENTS, TOPICS, Settings

AT_ONCE, LETTERS_AT_ONCE = 5000, 1000  # records between two looks at whether the broker took them


class Copied(NamedTuple):
    """What a copy added to one partition of an archive, or sent from it."""

    topic: str
    partition: int
    start: int
    end: int
    records: int


def copy(
    settings: Settings,
    archive: Archive,
    *,
    topics: Sequence[str] = TOPICS,
    from_ms: int | None = None,
    to_ms: int | None = None,
    codec: str | None = None,
    progress: Progress | None = None,
) -> list[Copied]:
    """Copy committed records of ``topics`` into ``archive`` up to where each ends now; again, it goes on from there.

    A time stands for the first record that is stamped at or after it. ``from_ms`` matters only for partitions of which
    nothing is archived yet.
    """
    unknown = [topic for topic in topics if topic not in TOPICS]
    if unknown:
        raise RangeError(f"no topic is called {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    done = []
    with archive.writing(), closing(KafkaSource(settings)) as source, progress or Progress(disable=True) as shown:
        for topic in topics:
            partitions = source.partitions(topic)
            name, topic_id = settings.topic_prefix + topic, source.topic_id(topic)
            archive.add_topic(topic, partitions=partitions, topic_id=topic_id, topic=name)
            for partition in range(partitions):
                kept_from, stop = source.bounds(topic, partition)
                first = kept_from if from_ms is None else max(kept_from, source.offset_at(topic, partition, from_ms))
                stop = stop if to_ms is None else min(stop, source.offset_at(topic, partition, to_ms))
                with closing(LogWriter(archive.log(topic, partition), start=first, codec=codec)) as writer:
                    if writer.next_offset < kept_from:
                        raise ArchiveError(
                            f"{writer.log.path} ends at offset {writer.next_offset}, but {source.where()} has deleted "
                            f"{topic} {partition} up to {kept_from}: records between are lost to this archive; go on "
                            "in another directory"
                        )
                    done.append(_copy(source, topic, writer, stop, shown))
    return done


def _copy(source: KafkaSource, topic: str, writer: LogWriter, stop: int, progress: Progress) -> Copied:
    partition, start = writer.log.partition, writer.next_offset
    task = progress.add_task(f"{topic} {partition}", total=max(0, stop - start))
    waiting: list[LogBlock] = []  # small blocks, until they make one of the archive's size
    records = waiting_bytes = 0
    for block in source.read(topic, partition, start, stop):
        waiting.append(block)
        records, waiting_bytes = records + len(block), waiting_bytes + len(block.values)
        if waiting_bytes >= BLOCK_BYTES:
            writer.append(LogBlock.concat(waiting))
            waiting, waiting_bytes = [], 0
        progress.update(task, completed=block.next_offset - start)
    if waiting:
        writer.append(LogBlock.concat(waiting))
    writer.sync()
    return Copied(topic, partition, start, writer.next_offset, records)


def restore(
    settings: Settings, archive: Archive, *, topics: Sequence[str] = EVENTS, progress: Progress | None = None
) -> list[Copied]:
    """Write archived ``topics`` to the broker, whose topics must be empty, or hold the beginning of the same records.

    So an interrupted restore goes on when it is called again. Offsets start at 0 there and have no gaps; whatever
    names an offset (snapshots, progress) belongs to the old topics, so the join and the learners start anew.
    """
    for topic in topics:
        _check_target(settings, archive, topic)
    bar = progress or Progress(disable=True)
    with closing(KafkaSource(settings)) as target, stamps_of_any_time(settings), bar as shown:
        return [_restore(settings, target, topic, log, shown) for topic in topics for log in archive.logs(topic)]


def _check_target(settings: Settings, archive: Archive, topic: str) -> None:
    name, partitions = settings.topic_prefix + topic, archive.info(topic).partitions
    with admin(settings) as client:
        state = describe_topics(client, [name]).get(name)
        if state is None or not state.partitions:
            raise TopicsError(f"no topic {name!r} to restore into; create it: glimpse topics")
        configs = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    if state.partitions != partitions:
        raise TopicsError(
            f"{name} has {state.partitions} partitions, the archive {partitions}; sessions would be torn apart: "
            f"set partitions = {partitions} and create it anew"
        )
    if str(configs["topic"][name]["message.timestamp.type"]["value"]) != "CreateTime":
        raise TopicsError(
            f"{name} would stamp old records with the time of today, which makes them all late; "
            'set timestamps = "CreateTime", then: glimpse topics --fix'
        )


def _restore(settings: Settings, target: KafkaSource, topic: str, log: ArchivedLog, progress: Progress) -> Copied:
    name = settings.topic_prefix + topic
    bounds = _, there = target.bounds(topic, log.partition)
    task = progress.add_task(f"{topic} {log.partition}", total=log.end - log.start, completed=there)
    records = (record for block in log.read() for record in block.records())
    _check_beginning(target, topic, log.partition, bounds, records)
    sent, to_send = 0, ((name, log.partition, record) for record in records)
    for sent in _sent(settings, to_send, f"{name} {log.partition}", there=there):
        progress.update(task, completed=there + sent)
    progress.update(task, completed=log.end - log.start)
    return Copied(topic, log.partition, there, there + sent, sent)


def _check_beginning(
    target: KafkaSource, topic: str, partition: int, bounds: tuple[int, int], ours: Iterator[LogRecord]
) -> None:
    """Pass over what is there, or refuse it when it is not the beginning of what is archived."""
    for block in target.read(topic, partition, *bounds):
        for record in block.records():
            mine = next(ours, None)
            if mine is None or mine[1:] != record[1:]:
                raise ArchiveError(
                    f"partition {partition} of {topic} on {target.where()} holds other records than the archive "
                    f"(the first at offset {record.offset}); restore into new topics: another topic_prefix"
                )


def resend(
    settings: Settings, refusals: Iterable[Refusal], *, held_back: Callable[[DeadLetter], str | None]
) -> Counter[str]:
    """Send the records of letters to their topics, with their keys and time stamps; return how many went to each.

    Those that ``held_back`` has a reason for are left out. Interrupted, it may be run again.
    """
    sent: Counter[str] = Counter()

    def to_send() -> Iterator[tuple[str, int | None, LogRecord]]:
        for letter in (refusal.letter for refusal in refusals if held_back(refusal.letter) is None):
            sent[letter.topic] += 1
            # A record without a key goes where it was; one with a key belongs where its key does now.
            partition = letter.partition if letter.key is None else None
            yield letter.topic, partition, LogRecord(letter.offset, letter.timestamp_ms, letter.key, letter.value)

    for _ in _sent(settings, to_send(), f"Kafka at {settings.kafka}", at_once=LETTERS_AT_ONCE):
        pass
    return sent


def _sent(
    settings: Settings,
    records: Iterable[tuple[str, int | None, LogRecord]],
    where: str,
    *,
    there: int = 0,
    at_once: int = AT_ONCE,
) -> Iterator[int]:
    """Send records to topics and partitions, and yield how many the broker has taken, every now and then."""
    futures, sent = [], 0
    try:
        with closing(producer(settings, allow_auto_create_topics=False, linger_ms=20, batch_size=1 << 18)) as writer:
            for topic, partition, record in records:
                stamp = record.timestamp if record.timestamp >= 0 else None
                futures.append(writer.send(topic, record.value, record.key, None, partition, stamp))
                sent += 1
                if len(futures) >= at_once:
                    await_sent(futures)
                    futures.clear()
                    yield sent
            await_sent(futures)
    except KafkaError as error:
        raise SourceAway(f"{where} took {there + sent} records at most: {error}; run it again") from error
    yield sent
