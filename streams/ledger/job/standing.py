"""The join's group on Kafka, or an embedded runner's directory, in; where each partition's join stands out."""

from __future__ import annotations

from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from streams.broker.clients import admin
from streams.embedded.logs import committed
from streams.join.commit import Commit
from streams.logs.archive import Archive
from streams.logs.job.kafka_source import KafkaSource
from streams.logs.source import ArchiveSource, LogSource, SourceAway
from streams.settings.settings import Settings
from streams.settings.topics import Topics


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
