"""Taking back a bucket's lists: samples of sign −1 on Kafka."""

from __future__ import annotations

from kafka import KafkaProducer
from kafka.errors import KafkaError

from schemas.codec import encode
from streams.broker import await_sent, partition_of, transactional
from streams.ledger.job.commits import join_commits
from streams.ledger.selection import Selection
from streams.ledger.unlearning import Unlearning, batches_of, plan_unlearning
from streams.logs import LogSource, SourceAway
from streams.logs.job import KafkaSource
from streams.settings import Settings, Topics

_TRANSACTION_BYTES = 16 << 20


def plan_on(source: LogSource, settings: Settings, *, bucket: str, selection: Selection) -> Unlearning:
    """Return what would be taken back now."""
    return plan_unlearning(
        source,
        settings,
        bucket=bucket,
        partition=partition_of(bucket, source.partitions("samples")),
        selection=selection,
        commits=join_commits(source),
    )


def unlearn(settings: Settings, *, bucket: str, selection: Selection) -> Unlearning:
    """Take lists back on Kafka: write them to the samples topic with sign −1, and return what was done.

    Lists that were taken back before are not there any more, so doing it twice, or again after it was interrupted,
    changes nothing further. Of two that run at the same time, the broker fences the first.
    """
    names, source = Topics.of(settings), KafkaSource(settings)
    try:
        producer = transactional(settings, f"glimpse-unlearn-{bucket}", transaction_timeout_ms=60_000)
        try:
            producer.init_transactions()  # before reading: whoever was at it can write no more
            plan = plan_on(source, settings, bucket=bucket, selection=selection)
            waiting: list[bytes] = []
            for batch in batches_of(source, plan):
                waiting.append(encode(batch))
                if sum(map(len, waiting)) > _TRANSACTION_BYTES:
                    _write(producer, names.samples, bucket, waiting)
            _write(producer, names.samples, bucket, waiting)
        finally:
            producer.close(timeout=10)
            source.close()
    except KafkaError as error:
        raise SourceAway(f"{bucket}: not all was taken back: {error}; run it again") from error
    return plan


def _write(producer: KafkaProducer, topic: str, bucket: str, payloads: list[bytes]) -> None:
    if payloads:
        producer.begin_transaction()
        sent = [producer.send(topic, payload, bucket.encode()) for payload in payloads]
        await_sent(sent)
        producer.commit_transaction()
        payloads.clear()
