"""Workarounds of the learn job for aiokafka 0.14.0 and Faust 0.15.3 are still needed: the libraries' own behaviour.

A test that fails after an upgrade names the workaround that can go. test_transport.py has that of damaged batches.
"""

import asyncio
import inspect
from types import SimpleNamespace

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.types import TP
from sample_batches import SampleWriter

from streams.learn.job import create_app
from streams.learn.job.app import FOREVER_S
from streams.learn.job.transport import LearnConsumer, LearnThread
from streams.settings import Bucket, Settings, Topics

SETTINGS = Settings(buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)})


@pytest.fixture
def written(settings_for):
    """Settings with one partition of samples that has one record."""
    settings = settings_for(buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)}, partitions=1)
    writer = SampleWriter(settings)
    writer.write()
    writer.close()
    return settings


async def polled(settings, prepare):
    """Assign the samples to a consumer of aiokafka as the job's is set, prepare it, and poll."""
    group, partition = f"{settings.topic_prefix}group", TopicPartition(Topics.of(settings).samples, 0)
    options = {"bootstrap_servers": settings.kafka, "group_id": group, "auto_offset_reset": "none"}
    async with AIOKafkaConsumer(**options, enable_auto_commit=False) as consumer:
        consumer.assign([partition])
        prepare(consumer, partition)
        return await consumer.getmany(timeout_ms=2_000)


def test_pause_seeks_as_a_position_is_asked_for_also_while_a_partition_is_paused(written):
    with pytest.raises(NoOffsetForPartitionError):
        asyncio.run(polled(written, lambda consumer, partition: consumer.pause(partition)))

    def pause(consumer, partition):
        consumer.pause(partition)
        consumer.seek(partition, 0)

    assert asyncio.run(polled(written, pause)) == {}


def test_fetch_records_catches_what_a_poll_raises(written):
    with pytest.raises(OffsetOutOfRangeError) as raised:
        asyncio.run(polled(written, lambda consumer, partition: consumer.seek(partition, 1_000)))
    assert isinstance(raised.value, KafkaError)
    assert list(raised.value.args[0]) == [TopicPartition(Topics.of(written).samples, 0)]


def test_resume_and_pause_convert_partitions_as_aiokafka_takes_its_own_kind_alone(written):
    def resume(consumer, partition):
        consumer.seek(partition, 0)
        consumer.resume(TP(*partition))

    with pytest.raises(TypeError):
        asyncio.run(polled(written, resume))


def test_samples_are_read_committed_although_faust_asks_for_that_with_tables_alone(written):
    async def isolation_levels():
        app = create_app(written)
        kinds = AIOKafkaConsumerThread, LearnThread
        made = [kind(app.consumer)._create_worker_consumer(app.transport) for kind in kinds]
        return [consumer._isolation_level for consumer in made]

    assert asyncio.run(isolation_levels()) == ["read_uncommitted", "read_committed"]


def test_progress_reads_private_state_as_a_position_can_only_be_awaited():
    assert inspect.iscoroutinefunction(AIOKafkaConsumer.position)


def test_every_offset_is_delivered_again_although_faust_drops_what_it_has_delivered():
    async def delivered(kind):
        app, offsets = create_app(SETTINGS), []
        fetcher = SimpleNamespace(_stopped=asyncio.Event())

        async def callback(message):
            offsets.append(message.offset)

        async def getmany(timeout):
            for offset in (5, 3):  # after a seek back
                yield TP("samples", 0), SimpleNamespace(topic="samples", offset=offset, key=None, value=None)
            fetcher._stopped.set()

        consumer = kind(app.transport, callback, None, None, commit_interval=1.0)
        consumer.getmany = getmany
        await consumer._drain_messages(fetcher)
        return offsets

    assert asyncio.run(delivered(Consumer)) == [5]
    assert asyncio.run(delivered(LearnConsumer)) == [5, 3]


@pytest.mark.parametrize("idle_s, partitions", [(0.5, 2), (FOREVER_S, 1)])
def test_a_member_that_fetches_nothing_stays_in_its_group_only_with_an_interval_without_end(
    settings_for, idle_s, partitions
):
    async def taken(settings):
        options = {"bootstrap_servers": settings.kafka, "group_id": f"{settings.topic_prefix}group"}
        options |= {"max_poll_interval_ms": idle_s * 1000, "rebalance_timeout_ms": 3_000, "heartbeat_interval_ms": 200}
        topic = Topics.of(settings).samples
        async with AIOKafkaConsumer(topic, **options) as idle:
            while not idle.assignment():
                await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            async with AIOKafkaConsumer(topic, **options) as other:
                while not other.assignment():
                    await asyncio.sleep(0.05)
                return len(other.assignment())

    assert asyncio.run(asyncio.wait_for(taken(settings_for(partitions=2)), 20)) == partitions
