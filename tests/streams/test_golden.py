"""A golden log: 20,000 disordered lists give, through the join and all five learners, the hashes written down here.

Whatever moves or is renamed, these must stay. If the first test fails, the input has changed (the generator, numpy or
the schemas), and the others say nothing; if it passes, what is learned has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import zip_longest

import golden
import pytest

from schemas.codec import encode
from streams.events import Acceptance, EventReader
from streams.join import SessionJoin
from streams.learn import PartitionLearner, SamplesPartition

LOGS = "82f3c0970f777e1d152db380cbbfb1f74a1e8552e210470da0fc70245c90d1d1"
# Every record, in order. Until the second round it was 71fd55ec…: corrections in one record now stand in the order of
# the impressions log, and no longer in that of the memory slots which their lists happened to have.
SAMPLES = "f5fc8332c8c536fc76cbc35fc82423565a2851083d3bb55ba0f0f554df40d833"
REFUSED = "b0e54aa8bf86aa40773dbe172f3e9822addddf2a471102fd6011e69694886bb6"  # dead letters and late clicks
COUNTS = {  # the ledgers of the three partitions in the end
    "impressions": (7189, 7221, 7111),
    "lists": (6606, 6641, 6539),
    "open": (0, 0, 0),
    "duplicates": (317, 288, 318),
    "too_late": (68, 73, 65),
    "dead_impressions": (198, 219, 189),
    "clicks": (9248, 9279, 9366),
    "used": (6162, 6107, 6100),
    "repeated": (2697, 2734, 2878),
    "waiting": (0, 0, 0),
    "late": (300, 359, 303),
    "dead_clicks": (89, 79, 85),
    "corrections": (425, 458, 406),
}
FOREVER_MS = golden.START_MS + 10 * 86_400_000
Step = tuple[int, str, list[golden.Record], int]  # partition, log, records to read, the clock after them


class Pipeline:
    """The join of each partition and one learner of all buckets, fed step by step."""

    def __init__(self) -> None:
        accept = Acceptance(golden.BUCKETS, future_ms=golden.FUTURE_MS)
        times = {"wait_ms": golden.WAIT_MS, "lateness_ms": golden.LATENESS_MS}
        self.joins = [
            SessionJoin(accept, **times, partition=number, reader=EventReader()) for number in range(golden.PARTITIONS)
        ]
        self.learner = PartitionLearner(golden.BUCKETS, SamplesPartition("samples", "golden"))
        self.samples, self.refused, self.written = sha256(), [], 0

    def read(self, step: Step) -> None:
        partition, log, records, clock_ms = step
        join = self.joins[partition]
        add = {"impressions": join.add_impressions, "clicks": join.add_clicks}[log]
        add(records, records[-1].offset + 1 if records else None)
        self.checkpoint(partition, clock_ms)

    def checkpoint(self, partition: int, clock_ms: int) -> None:
        checkpoint = self.joins[partition].checkpoint(clock_ms)
        values = [encode(batch) for batch in checkpoint.samples]
        for value in values:
            self.samples.update(f"{len(value)}\n".encode() + value)
        self.learner.apply(golden.Record(self.written + n, 0, None, value) for n, value in enumerate(values))
        self.written += len(values)
        self.refused += [f"{letter.topic} {letter.partition} {letter.offset}" for letter in checkpoint.dead_letters]
        self.refused += [f"late {partition} {click.offset}" for click in checkpoint.late_clicks]

    def finish(self) -> None:
        for partition, join in enumerate(self.joins):
            join.idle(impressions_ms=FOREVER_MS, clicks_ms=FOREVER_MS)
            self.checkpoint(partition, FOREVER_MS)

    def snapshots(self) -> dict[str, str]:
        snapshots, _, dead_letters, *_ = self.learner.publish(now_ms=0)
        assert not dead_letters
        return {snapshot.bucket: snapshot.sha256 for snapshot in snapshots}

    def counts(self) -> dict[str, tuple[int, ...]]:
        ledgers = [join.ledger.counts() for join in self.joins]
        return {name: tuple(counts[name] for counts in ledgers) for name in ledgers[0]}

    def refused_sha256(self) -> str:
        return sha256("\n".join(sorted(self.refused)).encode()).hexdigest()


def as_they_come(logs: list[tuple[golden.Log, golden.Log]]) -> Iterator[Step]:
    """Every eight seconds what came since, of every log of every partition: many lists are corrected."""
    last_ms = max(record.timestamp for pair in logs for log in pair for record in log)
    read = Counter()
    for now_ms in range(golden.START_MS, last_ms + 16_000, 8_000):
        for partition, pair in enumerate(logs):
            for name, log in zip(("impressions", "clicks"), pair, strict=True):
                start = stop = read[partition, name]
                while stop < len(log) and log[stop].timestamp < now_ms:
                    stop += 1
                read[partition, name] = stop
                yield partition, name, log[start:stop], now_ms


def clicks_ahead(logs: list[tuple[golden.Log, golden.Log]]) -> Iterator[Step]:
    """The last partition first, clicks far ahead of impressions, no clock but the logs': no list is corrected."""
    for partition, (impressions, clicks) in reversed(list(enumerate(logs))):
        for tapped, shown in zip_longest(pieces(clicks, 1_301), pieces(impressions, 97), fillvalue=[]):
            yield partition, "clicks", tapped, 0
            yield partition, "impressions", shown, 0


def pieces(log: golden.Log, size: int) -> list[golden.Log]:
    return [log[start : start + size] for start in range(0, len(log), size)]


def run(logs: list[tuple[golden.Log, golden.Log]], order: Callable[..., Iterator[Step]]) -> Pipeline:
    pipeline = Pipeline()
    for step in order(logs):
        pipeline.read(step)
    pipeline.finish()
    assert all(join.ledger.balanced for join in pipeline.joins)
    return pipeline


@pytest.fixture(scope="module")
def logs() -> list[tuple[golden.Log, golden.Log]]:
    return golden.logs(seed=20_000)


def test_the_log_is_the_same_to_the_byte(logs):
    assert golden.sha256_of(logs) == LOGS


def test_the_log_gives_the_snapshots_samples_and_counts_written_down(logs):
    live = run(logs, as_they_come)
    assert live.counts() == COUNTS
    assert live.samples.hexdigest() == SAMPLES
    assert live.refused_sha256() == REFUSED
    assert live.snapshots() == golden.SNAPSHOTS


def test_another_order_of_polling_gives_the_same_snapshots(logs):
    other = run(logs, clicks_ahead)
    assert other.counts() == {**COUNTS, "corrections": (0, 0, 0)}
    assert other.samples.hexdigest() != SAMPLES
    assert other.refused_sha256() == REFUSED
    assert other.snapshots() == golden.SNAPSHOTS
