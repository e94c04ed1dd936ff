"""Where each partition's join stands: by its group on Kafka, or by an embedded runner's directory."""

from __future__ import annotations

from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from streams.broker import admin
from streams.embedded import committed
from streams.join import Commit
from streams.logs import Archive, ArchiveSource, LogSource, SourceAway
from streams.logs.job import KafkaSource
from streams.settings import Settings, Topics


def join_commits(source: LogSource) -> dict[int, Commit]:
    """Return the last commit of each partition that a join has worked on; none for an archive of copied topics."""
    if isinstance(source, KafkaSource):
        return _of_group(source.settings)
    assert isinstance(source, ArchiveSource)
    return _of_directory(source.archive)


def _of_group(settings: Settings) -> dict[int, Commit]:
    names, group = Topics.of(settings), f"{settings.topic_prefix}glimpse-join"
    try:
        with admin(settings) as client:
            found: dict[TopicPartition, Any] = client.list_group_offsets(group).get(group, {})
    except KafkaError as error:
        raise SourceAway(f"Kafka at {settings.kafka} does not tell the offsets of {group}: {error}") from error
    entries = {(place.topic, place.partition): (entry.offset, entry.metadata) for place, entry in found.items()}
    numbers = sorted(number for topic, number in entries if topic == names.impressions)
    return {
        number: Commit.decode(entries[names.impressions, number], entries[names.clicks, number])[0]
        for number in numbers
        if (names.clicks, number) in entries
    }


def _of_directory(archive: Archive) -> dict[int, Commit]:
    return dict(enumerate(committed(archive)))
