"""Taking back a bucket's lists in a range of time: first a plan, then samples of sign −1 on Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from kafka import KafkaProducer
from kafka.errors import KafkaError

from learner import Bandit
from schemas.codec import SchemaError, decode, encode
from schemas.records import SampleBatch
from streams.broker import await_sent, partition_of, transactional
from streams.join import Commit
from streams.learn import samples_of
from streams.ledger.job.standing import join_commits
from streams.ledger.lists import NetLists, SamplePosition, by_record, take_back
from streams.logs import LogSource, SourceAway, time_text
from streams.logs.job import KafkaSource
from streams.settings import Settings, Topics

_TRANSACTION_BYTES = 16 << 20


class UnlearnError(ValueError):
    """A range that cannot be taken back now."""


@dataclass(frozen=True, slots=True)
class Unlearning:
    """What would be taken back."""

    bucket: str
    partition: int  # of the samples
    places: list[SamplePosition]
    remembered: int  # lists in the range that the join may still correct, and that are left alone
    again_at_ms: int  # when the youngest of those will be forgotten, by the logs' clocks

    def __str__(self) -> str:
        text = f"{self.bucket}: {len(self.places)} lists to take back"
        if self.remembered:
            text += (
                f"; {self.remembered} more are left alone, since a late click could still correct them: "
                f"run it again once the logs have passed {time_text(self.again_at_ms)}"
            )
        return text


def plan_unlearning(
    source: LogSource, settings: Settings, *, bucket: str, from_ms: int, to_ms: int, commits: Mapping[int, Commit]
) -> Unlearning:
    """Return the lists of a bucket shown in a range that are learned, and that no click can change any more.

    An open transaction would hide what another one took back or corrected since it began, so it is waited for.
    """
    if bucket not in settings.buckets:
        raise UnlearnError(f"no bucket {bucket!r} in the settings; there: {', '.join(settings.buckets) or 'none'}")
    if not from_ms < to_ms:
        raise UnlearnError(f"the range from {time_text(from_ms)} to {time_text(to_ms)} is empty")
    if not commits:
        raise UnlearnError(
            f"no join has committed on {source.where()}, so nobody knows which lists are closed for good"
        )
    forgotten = {number: min(commit.impressions.floor, commit.clicks.floor) for number, commit in commits.items()}
    partition = partition_of(bucket, source.partitions("samples"))
    source.settle("samples", partition)  # after the commits, so that all that they count is seen
    net = NetLists(from_ms, to_ms)
    for offset, batch in read_samples(source, partition, bucket):
        net.add(offset, batch)
    places, remembered, again_at_ms = [], 0, 0
    horizon_ms = int(settings.horizon_s * 1000)
    for name, (place, shown_at) in net.learned().items():
        if shown_at < forgotten.get(name.partition, -1):
            places.append(place)
        else:
            remembered, again_at_ms = remembered + 1, max(again_at_ms, shown_at + horizon_ms + 1)
    return Unlearning(bucket, partition, places, remembered, again_at_ms)


def read_samples(source: LogSource, partition: int, bucket: str) -> Iterator[tuple[int, SampleBatch]]:
    """Yield the sample batches of a bucket with their offsets."""
    for block in source.read("samples", partition, *source.bounds("samples", partition)):
        for record in block.records():
            if record.key == bucket.encode():
                try:
                    batch: SampleBatch = decode(record.value or b"", SampleBatch)
                except SchemaError:
                    continue  # the learner refused it too
                if batch.bucket == bucket:
                    yield record.offset, batch


def batches_of(source: LogSource, plan: Unlearning) -> Iterator[SampleBatch]:
    """Yield what has to be learned so that the lists of a plan are as if they had never been."""
    wanted = dict(by_record(plan.places))
    for offset, batch in read_samples(source, plan.partition, plan.bucket):
        if offset in wanted:
            yield take_back(batch, wanted[offset])


def effect(model: Bandit, batches: Iterator[SampleBatch]) -> str:
    """Take lists back from a model, and return in words what that changes."""
    before, rounds = model.theta.copy(), model.rounds
    rows = clicks = 0
    for batch in batches:
        model.learn(samples_of(batch))
        rows += len(batch.positions)
        clicks += int(np.count_nonzero(batch.rewards_array))
    text = f"{rows} rows with {clicks} clicks; lists learned {rounds} → {model.rounds}"
    if model.dim:
        moved = float(np.linalg.norm(model.theta - before))
        text += f"; θ moves by {moved:.6g} from a length of {float(np.linalg.norm(before)):.6g}"
    return text


def unlearn(settings: Settings, *, bucket: str, from_ms: int, to_ms: int) -> Unlearning:
    """Take a range back on Kafka: write its lists to the samples topic with sign −1, and return what was done.

    Lists that were taken back before are not there any more, so doing it twice, or again after it was interrupted,
    changes nothing further. Of two that run at the same time, the broker fences the first.
    """
    names, source = Topics.of(settings), KafkaSource(settings)
    try:
        producer = transactional(settings, f"glimpse-unlearn-{bucket}", transaction_timeout_ms=60_000)
        try:
            producer.init_transactions()  # before reading: whoever was at it can write no more
            plan = plan_unlearning(
                source, settings, bucket=bucket, from_ms=from_ms, to_ms=to_ms, commits=join_commits(source)
            )
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
