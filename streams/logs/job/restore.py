"""An archive restored to a broker: the same records in the same partitions, with their time stamps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from rich.progress import Progress

from streams.broker import TopicsError, admin, await_sent, describe_topics, producer, stamps_of_any_time
from streams.logs.archive import Archive, ArchivedLog, ArchiveError
from streams.logs.job.copy import Copied
from streams.logs.job.kafka_source import KafkaSource
from streams.logs.record import LogRecord
from streams.logs.source import SourceAway
from streams.settings import EVENTS, Settings


def restore(
    settings: Settings, archive: Archive, *, topics: Sequence[str] = EVENTS, progress: Progress | None = None
) -> list[Copied]:
    """Write archived ``topics`` to the broker, whose topics must be empty, or hold the beginning of the same records.

    So an interrupted restore goes on when it is called again. Offsets start at 0 there and have no gaps; whatever
    names an offset (snapshots, progress) belongs to the old topics, so the join and the learners start anew.
    """
    for topic in topics:
        _check_target(settings, archive, topic)
    target = KafkaSource(settings)
    done = []
    with closing(target), stamps_of_any_time(settings), progress or Progress(disable=True) as shown:
        for topic in topics:
            done += [_restore(settings, target, topic, log, shown) for log in archive.logs(topic)]
    return done


def _check_target(settings: Settings, archive: Archive, topic: str) -> None:
    name, partitions = settings.topic_prefix + topic, archive.info(topic).partitions
    with admin(settings) as client:
        found = describe_topics(client, [name]).get(name)
        if found is None or not found.partitions:
            raise TopicsError(f"no topic {name!r} to restore into; create it: glimpse topics")
        configs = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    if found.partitions != partitions:
        raise TopicsError(
            f"{name} has {found.partitions} partitions, the archive {partitions}; sessions would be torn "
            f"apart: set partitions = {partitions} and create it anew"
        )
    if str(configs["topic"][name]["message.timestamp.type"]["value"]) != "CreateTime":
        raise TopicsError(
            f"{name} would stamp old records with the time of today, which makes them all late; "
            'set timestamps = "CreateTime", then: glimpse topics --fix'
        )


def _restore(settings: Settings, target: KafkaSource, topic: str, log: ArchivedLog, progress: Progress) -> Copied:
    name = settings.topic_prefix + topic
    bounds = target.bounds(topic, log.partition)
    there = bounds[1]
    task = progress.add_task(f"{topic} {log.partition}", total=log.end - log.start, completed=there)
    records = (record for block in log.read() for record in block.records())
    if there:
        _check_beginning(target, topic, log.partition, bounds, records)
    sent, futures = 0, []
    try:
        writer = producer(settings, linger_ms=20, batch_size=1 << 18)
        try:
            for record in records:
                stamp = record.timestamp if record.timestamp >= 0 else None
                futures.append(writer.send(name, record.value, record.key, None, log.partition, stamp))
                sent += 1
                if len(futures) >= 5000:
                    await_sent(futures)
                    futures.clear()
                    progress.update(task, completed=there + sent)
            await_sent(futures)
        finally:
            writer.close()
    except KafkaError as error:
        raise SourceAway(
            f"{name} {log.partition} took {there + sent} records at most: {error}; run it again"
        ) from error
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
