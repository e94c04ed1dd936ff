"""Sample batches as the join writes them, with the columns that a model would learn from directly."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from learner import Samples
from schemas.codec import encode
from schemas.records import SampleBatch
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Settings, Topics

K, DIM = 4, 3


def make_batch(
    bucket: str, lists: int, seed: int, dim: int = DIM, *, taken_back: float = 0.1
) -> tuple[SampleBatch, Samples]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, K + 1, lists)
    contexts = rng.uniform(-0.5, 0.5, (lists, K, dim)).astype(np.float32)
    clicks = (rng.random((lists, K)) < 0.3) * rng.random((lists, K))
    signs = np.where(rng.random(lists) < taken_back, -1, 1)
    items = rng.integers(0, 1000, (lists, K))
    samples = Samples.from_clicks(contexts, clicks, items, sizes=sizes, sign=signs)
    return pack(bucket, samples), samples


def pack(bucket: str, samples: Samples) -> SampleBatch:
    lists = len(samples)
    return SampleBatch(
        bucket=bucket,
        dim=samples.dim,
        items=samples.item.astype("<i8").tobytes(),
        positions=samples.position.astype("u1").tobytes(),
        last_clicks=samples.last_click.astype("u1").tobytes(),
        rewards=samples.reward.astype("<f8").tobytes(),
        contexts=samples.context.astype("<f4").tobytes(),
        impression_ids=[f"i{number}" for number in range(lists)],
        sizes=samples.size.astype("u1").tobytes(),
        signs=samples.sign.astype("i1").tobytes(),
        shown_at_ms=np.zeros(lists, "<i8").tobytes(),
        source_partitions=np.zeros(lists, "<i4").tobytes(),
        source_offsets=np.zeros(lists, "<i8").tobytes(),
        ranked_by_epochs=np.zeros(lists, "<i4").tobytes(),
        ranked_by_offsets=np.zeros(lists, "<i8").tobytes(),
    )


class SampleWriter:
    """Writes batches to the samples topic in transactions, as the join does, and learns them in this process."""

    def __init__(self, settings: Settings, *, taken_back: float = 0.1) -> None:
        self.topic = Topics.of(settings).samples
        self.taken_back = taken_back  # share of lists with sign -1
        self.samples: dict[str, list[Samples]] = {name: [] for name in settings.buckets}  # all that were committed
        self.models = {name: bucket.model() for name, bucket in settings.buckets.items()}
        self.written = 0
        self._settings = settings
        self._producer: KafkaProducer | None = None
        self.again()

    def again(self) -> None:
        """Begin with a new producer, as after a broker was away."""
        self.close()
        self._producer = KafkaProducer(
            **self._settings.kafka_options(), transactional_id=f"{self._settings.topic_prefix}writer"
        )
        self._producer.init_transactions()

    def write(self, buckets: Iterable[str] | None = None, *, lists: int = 20, commit: bool = True) -> None:
        """Write one batch of each bucket in one transaction; one that is aborted must never be learned."""
        self._producer.begin_transaction()
        batches = {}
        for name in buckets or self.models:
            self.written += 1
            batch, batches[name] = make_batch(name, lists, seed=self.written, taken_back=self.taken_back)
            self._producer.send(self.topic, key=name.encode(), value=encode(batch)).get(timeout=10)
        if not commit:
            self._producer.abort_transaction()
            return
        self._producer.commit_transaction()
        for name, samples in batches.items():
            self.models[name].learn(samples)
            self.samples[name].append(samples)

    def write_raw(self, bucket: str, value: bytes | None) -> None:
        """Write any bytes where batches of a bucket go."""
        self._producer.begin_transaction()
        self._producer.send(self.topic, key=bucket.encode(), value=value).get(timeout=10)
        self._producer.commit_transaction()

    def hashes(self) -> dict[str, str]:
        """What every bucket's state must come to."""
        return {name: model.sha256() for name, model in self.models.items()}

    def close(self) -> None:
        """Close the producer, whether the broker is there or not."""
        if self._producer is not None:
            self._producer._sender.force_close()
            with suppress(KafkaError):
                self._producer.close(timeout=1)


def all_algorithms() -> Mapping[str, Bucket]:
    """One bucket per algorithm, spread over four partitions."""
    table = np.tril(np.full((K, K), 0.5)) + 0.3 * np.eye(K)
    sizes = {"dim": DIM, "positions": K}
    return {
        "ubm": Bucket("ubm", "ubm-linucb", examination=table, **sizes),
        "full": Bucket("full", "c2ucb", **sizes),
        "dcm": Bucket("dcm", "dcm-linucb", **sizes),
        "cm": Bucket("cm", "cm-linucb", **sizes),
        "pbm": Bucket("pbm", "pbm-ucb", examination=np.array([1.0, 0.7, 0.5, 0.2]), **sizes),
        "lot": Bucket("lot", "random", **sizes),
    }


def learned(reader: KafkaParameters, writer: SampleWriter) -> bool:
    """Whether every bucket's newest snapshot is what this process has learned from the same batches."""
    return hashes(reader) == writer.hashes()


def hashes(reader: KafkaParameters) -> dict[str, str]:
    """Of every bucket's newest snapshot."""
    reader.catch_up()
    return {name: snapshot.sha256 for name, snapshot in reader.snapshots.items()}


def committed(settings: Settings, topic: str) -> list[Any]:
    """Every committed record of a topic."""
    consumer = KafkaConsumer(**settings.kafka_options(), isolation_level="read_committed", enable_auto_commit=False)
    places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, records = consumer.end_offsets(places), []
    while any(consumer.position(place) < ends[place] for place in places):
        records += [record for batch in consumer.poll(timeout_ms=200).values() for record in batch]
    consumer.close()
    return records
