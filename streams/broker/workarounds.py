"""Workarounds for kafka-python 3.0.12, one function each: what the library does, and what is done instead.

Each changes one client, once, when that is made (``clients.py``, ``kafka_consumer.py``), or stands in for one call.
tests/streams/broker/test_workarounds.py has a test for each that fails when the library no longer needs it.

==================  ================================================================================================
parse_records       a batch that cannot be read makes a poll endless; a record takes 10 µs and 13 fields
read_wide           sockets are read in pieces of 4 KB
hand_out_parked     a partition that was paused half read stays silent
keep_assignment     an assignment that comes between two polls is thrown away
end_joining         a rebalance that new metadata causes is forgotten between two polls
note_replacement    a static member that was replaced polls on
is_rejoining        a member names its generation while it is asked for its next partitions
position_of         asking for a position raises what the next poll should raise
bounds_of           bounds of partitions whose leader is not known end in a KeyError
offset_at           of many partitions, those whose leader is not known seem to have no such offset
fetch_committed     committed offsets are asked for one partition at a time; a timeout does not say why
ask_for_topics      a producer waits for metadata at the first record of each topic
finish_within       the steps of a transaction wait for the broker without an end
await_sent          a flush says nothing of records that were refused
was_fenced          a fenced producer raises another error than that it was fenced
let_go              closing a producer sends what is left, and may leave a thread behind
describe_within     an admin client waits for a description without an end
==================  ================================================================================================

Compressed batches are unpacked within a bound by ``lean_records.py``; the library knows no bound.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    FencedInstanceIdError,
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    ProducerFencedError,
    UnstableOffsetCommitError,
)
from kafka.structs import MemberState

from streams.broker.lean_records import LeanPartitionRecords, WholePartitionRecords

log = logging.getLogger(__name__)

READ_BYTES = 1 << 18


def parse_records(consumer: KafkaConsumer, *, headers: bool) -> None:
    """Have a consumer give ``Fetched`` records, or the library's own when ``headers`` are needed.

    kafka-python 3.0.12 raises once what is wrong with a batch. Then it asks the records of that fetch, of which none
    are left, for more, within one poll and without an end. Both parsers raise UnreadableBatch each time instead. The
    lean one takes 2 µs for a record and not 10, and ends a poll after 32 MB. The consumer must have no deserializers.
    """
    fetcher = consumer._fetcher  # looks its parser up by this name for every answer of the broker
    append = fetcher._append

    def append_some(drained: Any, part: Any, max_records: int, update_offsets: bool) -> int:
        count: int = append(drained, part, max_records, update_offsets)
        return max_records if part.enough else count  # no more in this poll

    fetcher.PartitionRecords = WholePartitionRecords if headers else LeanPartitionRecords
    fetcher._append = append_some


def read_wide(consumer: KafkaConsumer) -> None:
    """Have the connections that a consumer makes from now on read up to 256 KB at once.

    kafka-python 3.0.12 asks a socket for 4 KB, and gives up the interpreter's lock for it: next to a thread that works,
    it gets the lock back 5 ms later. Encrypted connections have 16 KB at most in one piece, and are left as they are.
    """
    manager = consumer._manager
    if manager.ssl_enabled:
        return
    build = manager._build_transport

    async def build_wide(*given: Any, **options: Any) -> Any:
        transport = await build(*given, **options)
        transport._sock_recv = partial(received, transport)
        return transport

    manager._build_transport = build_wide


def received(transport: Any) -> tuple[bytes, KafkaConnectionError | None]:
    """Return what a socket has, and what is wrong with it; replaces a method of the library."""
    pieces: list[bytes] = []
    try:
        while piece := transport._sock.recv(READ_BYTES):
            pieces.append(piece)
            if len(piece) < READ_BYTES:
                return b"".join(pieces), None
    except (BlockingIOError, InterruptedError):
        return b"".join(pieces), None
    except OSError as error:
        return b"".join(pieces), KafkaConnectionError(error)
    return b"".join(pieces), KafkaConnectionError("socket disconnected")


def hand_out_parked(consumer: KafkaConsumer) -> None:
    """Let a consumer go on with records of a partition that was paused half read, and is not paused any more.

    kafka-python 3.0.12 hands out what it parked of a paused partition only while ``_next_partition_records`` is None,
    and never sets that to None again. If a paused partition has that slot, the library parks it too late, and waits for
    the broker although it has records.
    """
    fetcher = consumer._fetcher
    waiting = fetcher._next_partition_records
    if waiting and consumer._subscription.is_paused(waiting.topic_partition):
        fetcher._paused_partition_records[waiting.topic_partition] = waiting
        waiting = None
    if not waiting:
        fetcher._next_partition_records = None


def keep_assignment(consumer: KafkaConsumer) -> None:
    """Let a consumer take the assignment that came between two polls.

    kafka-python 3.0.12 throws it away and asks for another, so that the whole group rebalances again.
    """
    coordinator, untaken = consumer._coordinator, None
    ask = coordinator._do_join_and_sync_async

    async def take_or_ask() -> Any:
        nonlocal untaken
        if untaken is None or coordinator.state is not MemberState.REBALANCING:  # it is stable once it has taken one
            untaken = None
            untaken = await ask()
        return untaken

    coordinator._do_join_and_sync_async = take_or_ask


def end_joining(consumer: KafkaConsumer, *, within_ms: int) -> None:
    """Wait for the end of a rebalance that is under way.

    kafka-python 3.0.12 forgets between two polls a rebalance that new metadata has caused: it sends no heartbeat any
    more, and stays without partitions.
    """
    coordinator = consumer._coordinator
    if coordinator.rejoining:
        coordinator.rejoin_needed = True
        coordinator.poll(timeout_ms=within_ms)


def note_replacement(consumer: KafkaConsumer) -> threading.Event:
    """Return an event that is set once another member has taken the name of this static one.

    kafka-python 3.0.12 then ends its heartbeats, reports that in its log alone, and polls on.
    """
    coordinator, replaced = consumer._coordinator, threading.Event()
    ask = coordinator._send_heartbeat_request

    async def ask_and_note() -> Any:
        try:
            return await ask()
        except FencedInstanceIdError:
            replaced.set()
            raise

    coordinator._send_heartbeat_request = ask_and_note
    return replaced


def is_rejoining(consumer: KafkaConsumer) -> bool:
    """Return whether a member's group rebalances.

    kafka-python 3.0.12 then may know its next generation and still have the partitions of the last one: a commit of
    both together would not be refused.
    """
    return bool(consumer._coordinator.rejoining)


def position_of(consumer: KafkaConsumer, partition: TopicPartition) -> int | None:
    """Return the offset that a consumer reads next, beyond markers, if it is known.

    The ``position`` of kafka-python 3.0.12 asks the broker, and raises what the next poll should raise: for example,
    that a log was truncated.
    """
    state = consumer._subscription.assignment.get(partition)
    if state is None:
        raise IllegalStateError(f"{partition} is not assigned")
    return None if state.position is None else int(state.position.offset)


def bounds_of(
    consumer: KafkaConsumer, partitions: list[TopicPartition], *, within_ms: int
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset of each log and its end.

    kafka-python 3.0.12 leaves out those whose leader it does not know, and raises a KeyError. It asks for the leader,
    so that the next try may succeed: here that is an error that may be retried.
    """
    try:
        starts = consumer.beginning_offsets(partitions, timeout_ms=within_ms)
        ends = consumer.end_offsets(partitions, timeout_ms=within_ms)
    except KeyError as error:
        raise LeaderNotAvailableError(f"nobody is known to lead {error.args[0]}") from error
    return {partition: (starts[partition], ends[partition]) for partition in partitions}


def offset_at(consumer: KafkaConsumer, partition: TopicPartition, time_ms: int, *, within_ms: int) -> int | None:
    """Return the first offset of a log whose time stamp is not before ``time_ms``, or None.

    Of many partitions kafka-python 3.0.12 tells None for those whose leader it does not know: so it is asked for one.
    """
    entry = consumer.offsets_for_times({partition: time_ms}, timeout_ms=within_ms)[partition]
    return entry.offset if entry else None


def fetch_committed(
    consumer: KafkaConsumer, partitions: list[TopicPartition], *, within_ms: int, answer_ms: int
) -> Mapping[TopicPartition, Any]:
    """Return what a consumer's group has committed for partitions.

    kafka-python 3.0.12 offers that for one partition at a time, and its timeout does not tell that a transaction holds
    the offsets back: then this asks once more for the reason.
    """
    coordinator = consumer._coordinator
    manager = coordinator._manager

    async def ask() -> Any:
        return await manager.wait_for(
            manager.call_soon(coordinator._send_offset_fetch_request, partitions), timeout_ms=answer_ms
        )

    try:
        commits: Mapping[TopicPartition, Any] = coordinator.fetch_committed_offsets(partitions, timeout_ms=within_ms)
    except KafkaTimeoutError:
        try:
            commits = coordinator._net.run(ask)
        except UnstableOffsetCommitError as error:
            raise UnstableOffsetCommitError(
                f"a transaction has held the group's offsets back for {within_ms / 1000:g} s. If this is said again and"
                " again, the broker has lost its end, as Kafka 4.3.0 and 4.3.1 may; for the way out, with"
                " kafka-transactions.sh find-hanging, look for KAFKA-20734 in ARCHITECTURE.md"
            ) from error
    return commits


def ask_for_topics(producer: KafkaProducer, topics: Iterable[str]) -> None:
    """Have a producer ask for the metadata of all topics that it will write, at once and at its start.

    kafka-python 3.0.12 asks for each at its first record, and waits for it; it asks at most once in 100 ms.
    """
    producer._metadata.set_topics(set(topics))


def finish_within(producer: KafkaProducer, step: str, *given: Any, within_ms: int) -> None:
    """Carry out a step of a transaction, ``begin_commit`` or ``send_offsets_to_transaction``.

    kafka-python 3.0.12 waits for the broker's answer without an end: a request that is lost while the broker restarts
    would hold its worker for ever. This raises KafkaTimeoutError after ``within_ms``.
    """
    result = getattr(producer._transaction_manager, step)(*given)
    producer._sender.wakeup()
    if not result.wait(timeout_ms=within_ms):
        raise KafkaTimeoutError(f"the broker did not answer within {within_ms} ms")


def await_sent(futures: Iterable[Any], *, within_s: float = 30.0) -> None:
    """Raise the error of the first record that the broker did not take.

    To be called before each commit: a flush of kafka-python 3.0.12 says nothing of records that were refused, and on a
    stale epoch it renews itself and forgets what it has not sent.
    """
    for future in futures:
        future.get(timeout=within_s)


def was_fenced(error: BaseException) -> bool:
    """Return whether a newer writer of the same name has taken over.

    kafka-python 3.0.12 may tell that only by the way, in the text of a KafkaError.
    """
    kinds = ProducerFencedError | InvalidProducerEpochError
    return isinstance(error, kinds) or (isinstance(error, KafkaError) and ProducerFencedError.__name__ in str(error))


def let_go(producer: KafkaProducer) -> None:
    """Close a producer at once; nothing leaves it any more. Its own callbacks only stop it: its owner closes it.

    Closing one of kafka-python 3.0.12 first tries to send what is left, fails while the broker is away, and leaves a
    thread behind that comes back with the broker.
    """
    producer._sender.force_close()
    if threading.current_thread() is producer._sender:
        return
    try:
        producer.close(timeout=1)
    except KafkaError as error:
        log.debug("a producer did not close in time: %r", error)


def describe_within(client: KafkaAdminClient, names: list[str], *, within_ms: int) -> list[dict[str, Any]]:
    """Return what the broker says of topics.

    The ``describe_topics`` of kafka-python 3.0.12 has no timeout: a job whose broker was killed meanwhile waited on.
    """
    manager = client._manager

    async def ask() -> Any:
        return await manager.wait_for(manager.call_soon(client._get_cluster_metadata, names), within_ms)

    topics: list[dict[str, Any]] = manager.run(ask)["topics"]
    return topics
