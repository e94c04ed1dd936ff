"""Each workaround for kafka-python is still needed: a test of the library's own behaviour, and of ours next to it.

A test that fails after an upgrade of the library names the workaround that can go.
"""

import ast
import inspect
import socket
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from types import SimpleNamespace

import pytest
from jobs import wait_until
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    NoOffsetForPartitionError,
    ProducerFencedError,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.record.default_records import DefaultRecordBatch
from record_batches import PARTITION, batch, fetcher_of, parsed

from streams.broker import admin, producer, transactional, workarounds
from streams.broker.client_version import SUPPORTED, ClientVersionError, require_supported
from streams.broker.clients import consumer
from streams.broker.lean_records import MOST_BATCH_BYTES, LeanPartitionRecords, UnreadableBatch
from streams.settings import Topics

ROWS = [(1_700_000_000_000 + n, b"key", b"value %d" % n, []) for n in range(2_000)]
OTHER = TopicPartition("clicks", 0)


def functions(module):
    tree = ast.parse(inspect.getsource(module))
    return {node.name: ast.get_docstring(node) for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_workaround_has_a_test_and_names_its_version():
    tests = functions(sys.modules[__name__])
    for name, text in functions(workarounds).items():
        if name != "received":  # part of read_wide
            assert any(test.startswith("test_") and name in test for test in tests), name
            assert f"kafka-python {SUPPORTED}" in " ".join(text.split()), name
            assert f"\n{name} " in workarounds.__doc__, f"{name} is not in the table"


def test_another_version_of_the_library_is_refused_before_a_module_that_it_lacks_is_imported():
    with pytest.raises(ClientVersionError, match=r"kafka-python 3.1.0 is installed.* for 3.0.12; install that: pip"):
        require_supported("3.1.0")
    lacking = "import sys, kafka; kafka.__version__ = '4.0.0'; sys.modules['kafka.consumer.fetcher'] = None; "
    ended = subprocess.run([sys.executable, "-c", lacking + "import streams.lag.job"], capture_output=True, text=True)
    assert "ClientVersionError: kafka-python 4.0.0 is installed" in ended.stderr


class Endless(Exception):
    """A parser was asked for the hundredth time."""


class CountedRecords(Fetcher.PartitionRecords):
    asked = 0

    def take(self, n=None):
        self.asked += 1
        if self.asked == 100:
            raise Endless
        return super().take(n)


@pytest.mark.timeout(20)
def test_parse_records_ends_a_poll_at_a_batch_that_cannot_be_read():
    damaged = bytearray(batch(ROWS[:3]))
    damaged[-1] ^= 1
    own = fetcher_of(bytes(damaged), lambda consumer: setattr(consumer._fetcher, "PartitionRecords", CountedRecords))
    with pytest.raises(CorruptRecordError):
        own.fetched_records()
    with pytest.raises(Endless):
        own.fetched_records()
    for headers in (False, True):
        ours = fetcher_of(bytes(damaged), partial(workarounds.parse_records, headers=headers))
        with pytest.raises(UnreadableBatch):
            ours.fetched_records()
        assert ours.fetched_records() == ({}, False)


def test_parse_records_takes_less_than_half_of_the_time():
    data = batch(ROWS)

    def seconds(parser):
        began = time.thread_time()
        assert len(
            fetcher_of(data, lambda made: setattr(made._fetcher, "PartitionRecords", parser)).fetched_records(
                len(ROWS)
            )[0][PARTITION]
        ) == len(ROWS)
        return time.thread_time() - began

    turns = [(seconds(Fetcher.PartitionRecords), seconds(LeanPartitionRecords)) for _ in range(7)]
    own, ours = map(min, *turns)
    assert ours < own / 2


def test_unpacking_is_not_bounded_by_the_library():
    packed = batch([(0, b"", bytes(1 << 20), [])] * (2 + (MOST_BATCH_BYTES >> 20)), codec=1, size=1 << 26)
    assert sum(len(record.value) for record in DefaultRecordBatch(packed)) > MOST_BATCH_BYTES


@pytest.fixture(params=[False, True], ids=["library", "wide"])
def connection(request):
    """Whether the workaround is in use, a transport as a consumer's manager builds it, and its socket's other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        net = NetworkSelector()
        manager = KafkaConnectionManager(net, bootstrap_servers=f"{host}:{port}")
        if request.param:
            workarounds.read_wide(SimpleNamespace(_manager=manager))
        transport = net.run(manager._build_transport, SimpleNamespace(host=host, port=port))
        other, _ = server.accept()
        with other:
            yield request.param, net, transport, other
        manager.close()


def test_read_wide_hands_on_all_that_came_in_large_pieces_and_then_its_end(connection):
    wide, net, transport, other = connection
    data, pieces, lost, sizes = bytes(range(256)) * 400, [], [], []
    transport.set_protocol(SimpleNamespace(_sensors=None, data_received=pieces.append, connection_lost=lost.append))
    other.sendall(data)
    transport.resume_reading()
    while sum(map(len, pieces)) < len(data):
        net.poll(timeout_ms=1_000)
    assert b"".join(pieces) == data
    own, transport._sock = transport._sock, SimpleNamespace(recv=lambda size: sizes.append(size) or own.recv(size))
    assert transport._sock_recv() == (b"", None), "nothing more has come"
    transport._sock = own
    assert sizes == [workarounds.READ_BYTES if wide else 4096]
    other.close()
    while not lost:
        net.poll(timeout_ms=1_000)
    assert isinstance(lost[0], KafkaConnectionError)


def test_hand_out_parked_gives_what_was_paused_half_read():
    data = batch(ROWS[:4])
    fetcher = fetcher_of(data, partitions=(PARTITION, OTHER))
    consumer = SimpleNamespace(_fetcher=fetcher, _subscription=fetcher._subscriptions)
    assert len(fetcher.fetched_records(2)[0][PARTITION]) == 2
    fetcher._subscriptions.pause(PARTITION)
    assert fetcher.fetched_records(2) == ({}, False)
    fetcher._next_partition_records = parsed(fetcher, OTHER, data)
    assert len(fetcher.fetched_records(9)[0][OTHER]) == 4
    fetcher._subscriptions.resume(PARTITION)
    for _ in range(3):
        assert fetcher.fetched_records(9) == ({}, False), "the library stays silent"
    workarounds.hand_out_parked(consumer)
    assert [record.offset for record in fetcher.fetched_records(9)[0][PARTITION]] == [2, 3]


def member(settings, topics, **options):
    """Return a member of a group as the library makes it, with partitions that nobody has committed in."""
    made = consumer(
        settings,
        group_id=f"{settings.topic_prefix}group",
        auto_offset_reset="earliest",
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=10_000,
        **options,
    )
    for topic in topics:
        made.partitions_for_topic(topic)
    made.subscribe(list(topics))
    return made


def polled_for(consumer, seconds, *, until=lambda: False, every_s=0.3):
    """Poll a member seldom and shortly, as a busy job does, and return whether ``until`` came true."""
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        consumer.poll(timeout_ms=1)
        if until():
            return True
        time.sleep(every_s)
    return False


def test_keep_assignment_takes_what_came_between_two_polls(settings_for):
    settings = settings_for(partitions=2)
    own = member(settings, Topics.of(settings).events)
    thrown_away = polled_for(own, 60, until=lambda: own.group_metadata().generation_id > 1)
    own.close(autocommit=False)
    assert thrown_away, "the library takes its first assignment"


def test_end_joining_keeps_a_rebalance_that_new_metadata_causes_and_is_rejoining_tells_of_it(settings_for):
    settings = settings_for(partitions=1)
    topics = Topics.of(settings).events
    own = member(settings, topics, metadata_max_age_ms=500)
    workarounds.keep_assignment(own)
    assert polled_for(own, 30, until=lambda: len(own.assignment()) == 2)
    with admin(settings) as client:
        client.create_partitions(dict.fromkeys(topics, 3))
    named = []  # the generation that the library names during the rebalance, with partitions of the last one

    def rebalanced():
        if workarounds.is_rejoining(own):
            named.append((own.group_metadata().generation_id, len(own.assignment())))
        return len(own.assignment()) == 6

    assert not polled_for(own, 12, until=rebalanced), "the library rebalances by itself"
    assert (2, 2) in named, "the library names no generation, or has taken its partitions"
    own.close(autocommit=False)


def test_note_replacement_tells_that_another_member_has_the_name(settings_for):
    settings = settings_for(partitions=1)
    options = {"group_instance_id": "name", "heartbeat_interval_ms": 500}
    first = member(settings, Topics.of(settings).events, **options)
    replaced = workarounds.note_replacement(first)
    assert polled_for(first, 30, until=lambda: len(first.assignment()) == 2, every_s=0.01)
    second = member(settings, Topics.of(settings).events, **options)
    assert polled_for(second, 30, until=lambda: len(second.assignment()) == 2, every_s=0.01)
    wait_until(replaced.is_set, timeout_s=30)
    replaced.clear()
    first._coordinator._net.run(first._coordinator._do_heartbeat)  # raises nothing: a poll would not learn of it
    assert replaced.is_set()
    first.close(autocommit=False)
    second.close(autocommit=False)


def test_position_of_does_not_raise_what_a_poll_should(settings_for):
    settings = settings_for(partitions=1)
    partition = TopicPartition(Topics.of(settings).impressions, 0)
    with closing(consumer(settings)) as reader:
        reader.assign([partition])
        assert workarounds.position_of(reader, partition) is None
        with pytest.raises(NoOffsetForPartitionError):
            reader.position(partition, timeout_ms=30_000)


def test_bounds_of_and_offset_at_ask_for_a_leader_that_is_not_known(settings_for):
    settings = settings_for(partitions=1)
    topic = Topics.of(settings).impressions
    first, added = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with closing(consumer(settings)) as one, closing(consumer(settings)) as other, admin(settings) as client:
        for reader in (one, other):
            reader.beginning_offsets([first])
        client.create_partitions({topic: 2})
        with closing(producer(settings)) as writer:
            wait_until(lambda: len(writer.partitions_for(topic)) == 2, timeout_s=60)
            writer.send(topic, b"value", partition=1).get(30)
        with pytest.raises(LeaderNotAvailableError) as error:
            workarounds.bounds_of(one, [first, added], within_ms=10_000)
        assert isinstance(error.value.__cause__, KeyError)
        assert other.offsets_for_times({first: 0, added: 0}) == {first: None, added: None}, (
            "the library finds the leader"
        )
        assert workarounds.offset_at(other, added, 0, within_ms=10_000) == 0


def test_was_fenced_knows_by_its_text_what_a_producer_raises_whose_name_another_one_has(settings_for):
    settings = settings_for()
    own, newer = (transactional(settings, "name") for _ in range(2))
    own.init_transactions()
    own.begin_transaction()
    own.send(Topics.of(settings).samples, b"value").get(30)
    newer.init_transactions()
    with pytest.raises(ProducerFencedError):
        own.commit_transaction()
    with pytest.raises(KafkaError) as error:
        own.commit_transaction()
    assert not isinstance(error.value, ProducerFencedError), "the library names the error twice"
    assert workarounds.was_fenced(error.value)
    assert not workarounds.was_fenced(KafkaError("of another kind"))
    for writer in (own, newer):
        workarounds.let_go(writer)


def test_await_sent_tells_of_a_record_that_was_refused_which_a_flush_does_not(settings_for):
    settings = settings_for()
    own, newer = (transactional(settings, "name", linger_ms=60_000) for _ in range(2))
    own.init_transactions()
    own.begin_transaction()
    refused = own.send(Topics.of(settings).samples, b"value")
    newer.init_transactions()
    own.flush(30)  # the library says nothing
    with pytest.raises(InvalidProducerEpochError):
        workarounds.await_sent([refused])
    for writer in (own, newer):
        workarounds.let_go(writer)


def test_fetch_committed_asks_for_all_partitions_at_once(settings_for):
    settings = settings_for(partitions=2)
    partitions = [TopicPartition(topic, number) for topic in Topics.of(settings).events for number in range(2)]
    with closing(consumer(settings, group_id=f"{settings.topic_prefix}group")) as reader:
        with pytest.raises(TypeError):
            reader.committed(partitions)
        asked = workarounds.fetch_committed(reader, partitions, within_ms=10_000, answer_ms=10_000)
        assert all(commit is None or commit.offset < 0 for commit in asked.values())


@pytest.mark.parametrize("at_once", [False, True])
def test_ask_for_topics_asks_once_for_all(settings_for, monkeypatch, at_once):
    settings, asked, build = settings_for(), [], ClusterMetadata.metadata_request

    def noted(metadata):
        request = build(metadata)
        asked.append(len({topic.name for topic in request.topics or ()}))
        return request

    monkeypatch.setattr(ClusterMetadata, "metadata_request", noted)
    topics = Topics.of(settings).of_jobs
    with closing(producer(settings)) as writer:
        if at_once:
            workarounds.ask_for_topics(writer, topics)
        for topic in topics:
            writer.send(topic, b"value")
    assert (set(asked) <= {0, len(topics)}) == at_once


NO_TIMEOUT = {
    "finish_within": (KafkaProducer.commit_transaction, KafkaProducer.send_offsets_to_transaction),
    "describe_within": (KafkaAdminClient.describe_topics,),
}


@pytest.mark.parametrize("calls", NO_TIMEOUT.values(), ids=NO_TIMEOUT)
def test_finish_within_and_describe_within_have_an_end_that_the_library_does_not_offer(calls):
    for call in calls:
        assert not [name for name in inspect.signature(call).parameters if "timeout" in name], call


@pytest.mark.timeout(120)
def test_let_go_leaves_no_thread_behind_although_the_broker_is_away(new_broker, settings_for):
    broker = new_broker()
    settings = settings_for(kafka=broker.bootstrap)
    topic = Topics.of(settings).impressions
    own, ours = (producer(settings, linger_ms=60_000) for _ in range(2))
    for writer in (own, ours):
        writer.partitions_for(topic)
    broker.kill()
    for writer in (own, ours):
        writer.send(topic, b"value")
    with pytest.raises(KafkaError):
        own.close(timeout=1)
    assert own._sender.is_alive(), "the library ends its thread"
    for writer in (ours, own):
        workarounds.let_go(writer)
        wait_until(lambda writer=writer: not writer._sender.is_alive(), timeout_s=60)
