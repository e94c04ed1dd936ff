"""Samples against the rounds of snapshots: what is learned, refused, or still waits."""

from dataclasses import replace

import numpy as np
import pytest
from sample_batches import all_algorithms, make_batch

from schemas.codec import encode
from schemas.records import SampleBatch
from streams.learn import PartitionLearner, SamplesPartition
from streams.ledger.balance import Learned, SamplesLog
from streams.logs import LogRecord

BUCKETS = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "cm")}
LOG = SamplesPartition("samples", "t", partition=1)


def batches() -> list[SampleBatch]:
    """Batches of both buckets and one that nobody knows; in the fourth a list is beyond its bucket's scale."""
    made = [make_batch(name, lists=4, seed=seed)[0] for seed, name in enumerate(["ubm", "cm", "nobody", "ubm", "ubm"])]
    contexts = np.frombuffer(made[3].contexts, "<f4").copy()
    contexts[0] = 9.0
    made[3] = replace(made[3], contexts=contexts.tobytes())
    return made


def flow(learned_to: int) -> list[Learned]:
    """All batches in the samples, those below ``learned_to`` learned."""
    log, learner = SamplesLog(), PartitionLearner(BUCKETS, LOG)
    for offset, batch in enumerate(batches()):
        log.add(1, offset, batch)
        if offset < learned_to:
            learner.apply([LogRecord(offset, 0, None, encode(batch))])
    snapshots, _, letters, *_ = learner.publish(now_ms=0)
    for letter in letters:
        log.refuse(letter)
    return log.learned({one.bucket: one for one in snapshots}, BUCKETS)


def test_what_is_learned_balances_and_what_was_refused_is_told():
    cm, ubm = flow(5)
    nets = [int(batch.signs_array.sum()) for batch in batches()]
    refused = int(batches()[3].signs_array[0])
    assert (cm.bucket, cm.partition, cm.net, cm.refused, cm.waiting) == ("cm", 1, nets[1], 0, 0)
    assert (ubm.net, ubm.refused, ubm.waiting) == (nets[0] + nets[3] + nets[4], refused, 0)
    assert cm.balanced
    assert ubm.balanced
    assert ubm.snapshot.rounds == ubm.net - refused


@pytest.mark.parametrize("learned_to, waiting", [(0, (4, 12)), (1, (4, 8)), (3, (0, 8)), (4, (0, 4))])
def test_what_is_in_no_snapshot_waits(learned_to, waiting):
    found = flow(learned_to)
    assert tuple(one.waiting for one in found) == waiting
    assert all(one.balanced for one in found)


def test_without_a_snapshot_everything_waits():
    log = SamplesLog()
    for offset, batch in enumerate(batches()):
        log.add(0, offset, batch)
    assert [(one.net, one.waiting, one.balanced) for one in log.learned({}, BUCKETS)] == [(0, 4, True), (0, 12, True)]


def test_rounds_that_the_samples_do_not_say_are_wrong():
    [_, ubm] = flow(5)
    for rounds in (ubm.snapshot.rounds - 1, ubm.net + 1):
        assert not replace(ubm, snapshot=replace(ubm.snapshot, rounds=rounds)).balanced
