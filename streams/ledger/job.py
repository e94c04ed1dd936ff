"""The ledger of a running Glimpse: its audit, and taking lists back on Kafka."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from schemas.codec import encode
from streams.broker import admin, await_sent, partition_of, transactional
from streams.embedded import read_standing
from streams.join import Commit
from streams.ledger.balance import OUTPUTS, Audit, count_written, gaps_of
from streams.ledger.unlearning import Selection, Unlearning, batches_of, plan_unlearning
from streams.logs import ArchiveSource, LogSource, SourceAway
from streams.logs.job import KafkaSource
from streams.replay import plan_of, snapshots_at
from streams.replay.job import replay
from streams.settings import Settings, Topics

LEARNED_WITHIN_S = 10.0  # of being written, samples are in a snapshot
_TRANSACTION_BYTES = 16 << 20


def join_commits(source: LogSource) -> dict[int, Commit]:
    """Return the last commit of each partition that a join has worked on; none for an archive of copied topics."""
    if isinstance(source, KafkaSource):
        return _group_commits(source.settings)
    assert isinstance(source, ArchiveSource)
    standing = read_standing(source.archive)
    return {} if standing is None else dict(enumerate(standing.commits))


def _group_commits(settings: Settings) -> dict[int, Commit]:
    topics, group = Topics.of(settings), f"{settings.topic_prefix}glimpse-join"
    try:
        with admin(settings) as client:
            offsets: dict[TopicPartition, Any] = client.list_group_offsets(group).get(group, {})
    except KafkaError as error:
        raise SourceAway(f"Kafka at {settings.kafka} does not tell the offsets of {group}: {error}") from error
    entries = {source: (entry.offset, entry.metadata) for source, entry in offsets.items()}
    numbers = sorted(source.partition for source in entries if source.topic == topics.impressions)
    inputs = {number: topics.events.map(partial(TopicPartition, partition=number)) for number in numbers}
    return {
        number: Commit.decode(*logs.map(entries.__getitem__))[0]
        for number, logs in inputs.items()
        if logs.clicks in entries
    }


def audit(source: LogSource, settings: Settings) -> Audit:
    """Balance a running deployment, the directory of an embedded runner, or an archive of all topics.

    Where a join has committed, its ledger must agree with what it has written. An archive has no commits, so its events
    are joined again: the samples must hold every list that was due and none that the events do not give.
    """
    before = {number: commit.ledger for number, commit in join_commits(source).items()}
    if before:
        written = count_written(source)  # the jobs go on meanwhile
        result = Audit({number: commit.ledger for number, commit in join_commits(source).items()}, written)
        result.check_committed(before, topic_prefix=settings.topic_prefix)
    else:
        plan, notes = plan_of(source, settings, samples=False, finish=False)
        result = Audit(replay(plan).ledgers, count_written(source), notes=notes)
        result.check_rejoined(gaps_of(source))
    result.note_incomplete({topic: source.has(topic) for topic in OUTPUTS})
    _check_learned(result, source, settings)
    return result


def _check_learned(result: Audit, source: LogSource, settings: Settings) -> None:
    """Follow the samples into the snapshots; learners that are at work get a moment for what was just written."""
    live, give_up_at = isinstance(source, KafkaSource), time.monotonic() + LEARNED_WITHIN_S
    while True:
        newest = snapshots_at(source, settings.buckets)
        if newest is None:
            result.notes.append("parameters was not compared: it is not there")
            return
        topic_id = source.topic_id("samples")  # snapshots of another one of that name are none of this log
        snapshots = {name: snapshot for name, snapshot in newest.items() if snapshot.samples_topic_id == topic_id}
        learned = result.written.flow.learned(snapshots, settings.buckets)
        if not live or time.monotonic() > give_up_at or not any(bucket.waiting for bucket in learned):
            result.check_learned(learned, live=live)
            return
        time.sleep(0.5)


def plan_on(source: LogSource, settings: Settings, *, bucket: str, selection: Selection) -> Unlearning:
    """Return what would be taken back now."""
    partition = partition_of(bucket, source.partitions("samples"))
    commits = join_commits(source)
    return plan_unlearning(source, settings, bucket=bucket, partition=partition, selection=selection, commits=commits)


def unlearn(settings: Settings, *, bucket: str, selection: Selection) -> Unlearning:
    """Take lists back on Kafka: write them to the samples topic with sign −1, and return what was done.

    Lists that were taken back before are not there any more, so doing it twice, or again after it was interrupted,
    changes nothing further. Of two that run at the same time, the broker fences the first.
    """
    source = KafkaSource(settings)
    try:
        producer = transactional(settings, f"glimpse-unlearn-{bucket}", transaction_timeout_ms=60_000)
        try:
            producer.init_transactions()  # before reading: whoever was at it can write no more
            plan = plan_on(source, settings, bucket=bucket, selection=selection)
            waiting: list[bytes] = []
            for batch in batches_of(source, plan):
                waiting.append(encode(batch))
                if sum(map(len, waiting)) > _TRANSACTION_BYTES:
                    _write(producer, source.settings, bucket, waiting)
            _write(producer, source.settings, bucket, waiting)
        finally:
            producer.close(timeout=10)
            source.close()
    except KafkaError as error:
        raise SourceAway(f"{bucket}: not all was taken back: {error}; run it again") from error
    return plan


def _write(producer: KafkaProducer, settings: Settings, bucket: str, payloads: list[bytes]) -> None:
    if payloads:
        producer.begin_transaction()
        samples = Topics.of(settings).samples
        await_sent([producer.send(samples, payload, bucket.encode()) for payload in payloads])
        producer.commit_transaction()
        payloads.clear()
