"""The events of somebody else: records on the topics that ``glimpse produce`` has not written."""

from __future__ import annotations

import time
from contextlib import closing

from kafka import TopicPartition
from kafka.errors import KafkaError

from streams.broker import admin, consumer, describe_topics
from streams.events.job.writer import DeliveryError
from streams.settings import Settings, Topics

PRODUCED = ("written-by", b"glimpse produce")  # the header that tells its records from those of services
NEWEST = 50  # records of each partition that are looked at
PATIENCE_S = 10.0


def foreign_event(settings: Settings) -> str | None:
    """Return where one of the newest events stands that another program wrote, or None when there is none.

    Simulated clicks among real ones would be learned as real ones.
    """
    give_up_at = time.monotonic() + PATIENCE_S
    try:
        with admin(settings) as client:
            found = describe_topics(client, Topics.of(settings).events)
        places = [TopicPartition(name, number) for name, topic in found.items() for number in range(topic.partitions)]
        with closing(consumer(settings)) as reader:
            reader.assign(places)
            starts, ends = reader.beginning_offsets(places), reader.end_offsets(places)
            for place in places:
                reader.seek(place, max(starts[place], ends[place] - NEWEST))
            while any(reader.position(place) < ends[place] for place in places):
                for place, records in reader.poll(500).items():
                    for record in records:
                        if PRODUCED not in (record.headers or ()):
                            return f"{place.topic} partition {place.partition} at offset {record.offset}"
                if time.monotonic() > give_up_at:
                    raise DeliveryError(f"Kafka at {settings.kafka} does not show its newest events; try again")
    except KafkaError as error:
        raise DeliveryError(f"Kafka at {settings.kafka} does not show its newest events: {error}") from error
    return None
