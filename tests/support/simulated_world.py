"""What flows through a simulation: lists and clicks of now, poison between them, and what must come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from random import Random

import numpy as np
from kafka import TopicPartition
from kafka.partitioner.default import murmur2
from memory_cluster import MemoryCluster

from learner import Samples
from schemas.codec import decode, encode
from schemas.records import Click, DeadLetter, Impression, SampleBatch, Snapshot
from streams.settings import Bucket, Settings, Topics

K, DIM = 3, 2
BUCKETS = {name: Bucket(name, "c2ucb", DIM, K) for name in ("a", "b")}
SETTINGS = Settings(buckets=BUCKETS, wait_s=2.0, lateness_s=6.0, future_s=2.0, publish_every_s=0.25)
TOPICS = Topics.of(SETTINGS)
CLICKED_WITHIN_S = 5.0  # of a horizon of 8: nothing here is late, whichever clock is asked
POISON = b"\xc3\x01 is no event of ours"

Row = tuple[int, int, int, float, bytes]
Lists = Counter[tuple[str, str, tuple[Row, ...]]]


class Producer:
    """Writes lists and their clicks at the time of the cluster, and knows what must be learned of them."""

    def __init__(self, cluster: MemoryCluster, rng: Random, *, lists: int) -> None:
        self._cluster, self._rng = cluster, rng
        self.left = lists
        self._shown: list[tuple[float, Impression]] = []
        self._tapped: dict[str, dict[int, float]] = {}
        self.impressions: dict[str, Impression] = {}
        self.poisoned: Counter[tuple[str, int]] = Counter()  # topic and partition
        self.written: Counter[tuple[str, int]] = Counter()

    def step(self) -> None:
        """Show some lists, click on some that were shown not long ago, and write something else now and then."""
        now, rng = self._cluster.now, self._rng
        self._shown = [(at, one) for at, one in self._shown if now - at < CLICKED_WITHIN_S]
        for _ in range(min(self.left, rng.randint(0, 3))):
            self.left -= 1
            self._show(now)
        for _ in range(rng.randint(0, 2)):
            if self._shown:
                self._click(rng.choice(self._shown)[1])
        if rng.random() < 0.05 and self.left:
            topic = rng.choice(TOPICS.events)
            key = str(rng.getrandbits(30)).encode()
            self.poisoned[topic, self._append(topic, key, POISON)] += 1

    def show_everywhere(self) -> None:
        """Show two lists more on each partition: the stamps of one session alone move no clock."""
        seen: Counter[int] = Counter()
        while len(seen) < len(self._cluster.topics[TOPICS.clicks].logs) or min(seen.values()) < 2:
            self._show(self._cluster.now)
            seen[self._number(TOPICS.clicks, f"s{len(self.impressions) - 1}".encode())] += 1

    def pause(self) -> None:
        """Click on nothing that was shown before."""
        self._shown = []

    def _show(self, now: float) -> None:
        rng, number = self._rng, len(self.impressions)
        contexts = np.array([rng.uniform(-1, 1) for _ in range(K * DIM)], "<f4")
        items = np.array([rng.getrandbits(20) for _ in range(K)], "<i8")
        one = Impression(
            f"i{number}",
            f"s{number}",
            rng.choice(["a", "b"]),
            "u",
            int(now * 1000),
            items.tobytes(),
            contexts.tobytes(),
            rng.randint(1, K),
        )
        self.impressions[one.impression_id] = one
        self._tapped[one.impression_id] = {}
        self._shown.append((now, one))
        if rng.random() < 0.2:
            self._click(one)  # before its impression
        for _ in range(rng.choice([1, 1, 1, 2])):
            self._append(TOPICS.impressions, one.session_id.encode(), encode(one))

    def _click(self, one: Impression) -> None:
        position = self._rng.randint(1, K)
        self._tapped[one.impression_id][position] = 1.0
        click = Click(one.impression_id, one.session_id, position, int(self._cluster.now * 1000))
        for _ in range(self._rng.choice([1, 1, 2])):
            self._append(TOPICS.clicks, one.session_id.encode(), encode(click))

    def _append(self, topic: str, key: bytes, value: bytes) -> int:
        logs, number = self._cluster.topics[topic].logs, self._number(topic, key)
        jitter = 0 if self._cluster.topics[topic].append_time else self._rng.randint(-300, 300)
        logs[number].append(int(self._cluster.now * 1000) + jitter, key, value)
        self.written[topic, number] += 1
        return number

    def _number(self, topic: str, key: bytes) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % len(self._cluster.topics[topic].logs)

    def wanted(self) -> Lists:
        """Return what must be learned, once each, by a slow look at what was shown and clicked."""
        found: Lists = Counter()
        for name, one in self.impressions.items():
            taps, last, rows = self._tapped[name], 0, []
            for k in range(1, max([one.rendered, *taps]) + 1):
                context = one.contexts[4 * DIM * (k - 1) : 4 * DIM * k]
                rows.append((int(one.items_array[k - 1]), k, last, taps.get(k, 0.0), context))
                last = k if k in taps else last
            found[name, one.bucket, tuple(rows)] += 1
        return found


def committed(cluster: MemoryCluster, topic: str) -> list[tuple[TopicPartition, object]]:
    """Return the committed records of a topic."""
    places = [TopicPartition(topic, number) for number in range(len(cluster.topics[topic].logs))]
    return [(place, r) for place in places for r in cluster.log(place).records if r.offset < cluster.log(place).stable]


def net(cluster: MemoryCluster) -> Lists:
    """Return the signed lists of the samples topic."""
    found: Lists = Counter()
    for _, record in committed(cluster, TOPICS.samples):
        batch = decode(record.value, SampleBatch)
        rows = list(
            zip(
                batch.items_array.tolist(),
                batch.positions_array.tolist(),
                batch.last_clicks_array.tolist(),
                batch.rewards_array.tolist(),
                [row.tobytes() for row in batch.contexts_array],
                strict=True,
            )
        )
        start = 0
        for name, size, sign in zip(batch.impression_ids, batch.sizes, batch.signs_array.tolist(), strict=True):
            found[name, batch.bucket, tuple(rows[start : start + size])] += sign
            start += size
    return Counter({entry: count for entry, count in found.items() if count})


def letters(cluster: MemoryCluster) -> Counter[tuple[str, int]]:
    """Return how many dead letters there are of each partition."""
    found = [decode(record.value, DeadLetter) for _, record in committed(cluster, TOPICS.dead_letters)]
    return Counter((letter.topic, letter.partition) for letter in found)


def snapshots(cluster: MemoryCluster) -> dict[str, Snapshot]:
    """Return the newest snapshot of each bucket; versions must have only grown, and no list may have gone missing."""
    found: dict[str, Snapshot] = {}
    log = cluster.log(TopicPartition(TOPICS.parameters, 0))
    for record in log.history:
        if record.offset < log.stable and not record.key.startswith(b"@"):
            snapshot = decode(record.value, Snapshot)
            before = found.get(snapshot.bucket, snapshot)
            assert before.version <= snapshot.version, f"{snapshot.bucket} went back to {snapshot.version}"
            assert before.rounds <= snapshot.rounds, f"{snapshot.bucket} {snapshot.version} has lost lists"
            found[snapshot.bucket] = snapshot
    return found


def newest(cluster: MemoryCluster) -> dict[str, Snapshot]:
    """Return the snapshot of each bucket that a ranker would have now."""
    found = {record.key: record.value for _, record in committed(cluster, TOPICS.parameters)}
    return {key.decode(): decoded_snapshot(value) for key, value in found.items() if not key.startswith(b"@")}


@lru_cache(maxsize=16)
def decoded_snapshot(value: bytes) -> Snapshot:
    """Return a snapshot; at every fault it is asked for anew, and seldom is a new one."""
    return decode(value, Snapshot)


def learned_from(lists: Lists, buckets: Mapping[str, Bucket]) -> dict[str, str]:
    """Return the hash of each bucket's model that has learned these lists, and nothing else."""
    models = {name: bucket.model() for name, bucket in buckets.items()}
    for (_, bucket, rows), count in lists.items():
        for _ in range(count):
            models[bucket].learn(samples_of_rows(rows))
    return {name: model.sha256() for name, model in models.items()}


def samples_of_rows(rows: tuple[Row, ...]) -> Samples:
    """Return one list as samples."""
    item, position, last, reward, context = zip(*rows, strict=True)
    return Samples(
        item=np.array(item, np.int64),
        position=np.array(position, np.int64),
        last_click=np.array(last, np.int64),
        reward=np.array(reward),
        context=np.frombuffer(b"".join(context), "<f4").reshape(-1, DIM),
        size=np.array([len(rows)]),
        list_id=np.zeros(1, np.int64),
        sign=np.ones(1, np.int64),
    )
