"""Models as records: chunks, checksums, the newest of many."""

import random
from dataclasses import replace

import numpy as np
import pytest
from sample_batches import all_algorithms, make_batch

from learner import PbmUcb, Samples
from learner.browsing import MAX_POSITIONS
from schemas.codec import MAX_BYTES, decode, encode
from schemas.records import Snapshot, StateArray
from streams.parameters import (
    Newest,
    SnapshotCorrupt,
    frozen_model,
    load_snapshot,
    restore_model,
    split_snapshot,
    take_snapshot,
    verify,
)
from streams.parameters.snapshot import MAX_DIM, join_chunks
from streams.settings import Bucket, SettingsError

BUCKETS = all_algorithms()


def snapshot_of(bucket: Bucket, *, lists: int = 50, offset: int = 7, epoch: int | None = None) -> Snapshot:
    model = bucket.model()
    if lists:
        model.learn(make_batch(bucket.name, lists, seed=lists)[1])
    if epoch is not None:
        bucket = replace(bucket, epoch=epoch)
    return take_snapshot(model, bucket, samples_offset=offset, topic_id="t", partition=1, published_at_ms=5)


def newest(records) -> dict[str, Snapshot]:
    """The newest sound snapshot of each bucket."""
    gather = Newest()
    for record in records:
        gather.add(record)
    return gather.by_bucket


@pytest.mark.parametrize("name", BUCKETS)
def test_a_model_survives_its_record(name):
    snapshot = snapshot_of(BUCKETS[name])
    again = decode(encode(snapshot), Snapshot)
    assert again == snapshot
    assert restore_model(BUCKETS[name], again).sha256() == snapshot.sha256
    np.testing.assert_array_equal(again.theta_array, restore_model(BUCKETS[name], again).theta)


@pytest.mark.parametrize("name", BUCKETS)
def test_a_snapshot_ranks_as_its_model_without_the_table(name):
    snapshot = snapshot_of(BUCKETS[name])
    model, alone = restore_model(BUCKETS[name], snapshot), frozen_model(snapshot)
    rng = np.random.default_rng(3)
    candidates, items = rng.uniform(-0.5, 0.5, (200, 3)), rng.integers(0, 1000, 200)
    np.testing.assert_array_equal(alone.scores(candidates, items), model.scores(candidates, items))
    if name != "lot":  # which no two rank alike
        np.testing.assert_array_equal(alone.rank(candidates, 9, items), model.rank(candidates, 9, items))
    np.testing.assert_array_equal(alone.theta, model.theta)
    assert alone.alpha == model.alpha


def many_items(count: int) -> tuple[Bucket, Snapshot]:
    bucket = Bucket("many", "pbm-ucb", dim=0, positions=1, examination=np.ones(1))
    model = PbmUcb(examination=np.ones(1))
    model.learn(Samples.from_clicks(np.zeros((count, 1, 0)), np.zeros((count, 1)), np.arange(count)[:, None]))
    return bucket, take_snapshot(model, bucket, samples_offset=1, topic_id="t", partition=0, published_at_ms=0)


def test_what_is_too_large_travels_in_chunks_in_any_order():
    bucket, snapshot = many_items(100_000)
    chunks = split_snapshot(snapshot)
    assert len(chunks) > 3
    assert all(len(encode(chunk)) < 900_000 for chunk in chunks)
    assert all((chunk.bucket, chunk.version) == ("many", (1, 1)) for chunk in chunks)
    random.Random(1).shuffle(chunks)
    found = newest(decode(encode(chunk), Snapshot) for chunk in chunks)
    assert found == {"many": snapshot}
    assert restore_model(bucket, found["many"]).sha256() == snapshot.sha256
    assert len(encode(snapshot)) > MAX_BYTES
    assert load_snapshot(encode(snapshot)) == snapshot


def test_a_small_snapshot_is_one_record():
    snapshot = snapshot_of(BUCKETS["ubm"])
    assert split_snapshot(snapshot) == [snapshot]


def test_the_newest_whole_snapshot_wins_whatever_the_order():
    old, new, raised = (
        snapshot_of(BUCKETS["ubm"], lists=lists, offset=offset, epoch=epoch)
        for lists, offset, epoch in [(5, 90, 1), (9, 200, 1), (0, 3, 2)]
    )
    for order in ([old, new, raised], [raised, new, old], [new, raised, old, new]):
        assert newest(order) == {"ubm": raised}
    assert newest([new, old]) == {"ubm": new}


def test_chunks_that_are_missing_leave_the_older_snapshot():
    _, snapshot = many_items(60_000)
    before = replace(snapshot_of(BUCKETS["pbm"], offset=0), bucket="many")
    chunks = split_snapshot(snapshot)
    assert newest([before, *chunks[1:]]) == {"many": before}
    with pytest.raises(SnapshotCorrupt, match="chunks"):
        join_chunks(chunks[1:])


def flipped(snapshot: Snapshot) -> Snapshot:
    part = next(part for part in snapshot.state if part.name.startswith("gram"))
    data = bytes([part.data[0] ^ 1, *part.data[1:]])
    return replace(snapshot, state=[replace(one, data=data) if one is part else one for one in snapshot.state])


DAMAGE = {
    "one bit of a sum": flipped,
    "another ridge": lambda snapshot: replace(snapshot, ridge=snapshot.ridge + 1),
    "another table": lambda snapshot: replace(snapshot, examination_sha256="0"),
    "a sum missing": lambda snapshot: replace(snapshot, state=snapshot.state[1:]),
    "another type": lambda snapshot: replace(
        snapshot, state=[StateArray(one.name, "<f8", one.shape, one.data) for one in snapshot.state]
    ),
    "another algorithm": lambda snapshot: replace(snapshot, algorithm="pbm-ucb"),
    "an algorithm of another time": lambda snapshot: replace(snapshot, algorithm="sorcery"),
    "positions for 16 GB": lambda snapshot: replace(snapshot, positions=2**31 - 1),
    "no positions": lambda snapshot: replace(snapshot, positions=0),
    "features for 16 EB": lambda snapshot: replace(snapshot, dim=2**31 - 1),
    "features without their sums": lambda snapshot: replace(snapshot, dim=4096),
    "an offset below 0": lambda snapshot: replace(snapshot, samples_offset=-1),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_noticed(damage):
    good = snapshot_of(BUCKETS["ubm"])
    verify(good)
    for use in (verify, frozen_model, lambda snapshot: restore_model(BUCKETS["ubm"], snapshot)):
        with pytest.raises(SnapshotCorrupt, match="ubm@1"):
            use(damage(good))


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_hides_nothing_however_high_its_version(damage):
    good, later = (snapshot_of(BUCKETS["ubm"], lists=lists, offset=lists) for lists in (5, 9))
    bad = damage(snapshot_of(BUCKETS["ubm"], offset=10**15, epoch=2**31 - 1))
    gather = Newest()
    gather.add(good)
    with pytest.raises(SnapshotCorrupt):
        gather.add(bad)
    assert gather.by_bucket == {"ubm": good}
    assert gather.add(later)
    assert gather.by_bucket == {"ubm": later}


def test_chunks_that_stay_alone_take_bounded_memory_and_hide_nothing():
    _, snapshot = many_items(60_000)
    chunks = split_snapshot(snapshot)
    gather = Newest(loose_bytes=4_000_000)
    for number in range(2_000):
        assert not gather.add(replace(chunks[0], bucket=f"b{number % 50}", samples_offset=10**9 + number))
        assert gather.loose_bytes <= 4_000_000
    assert not gather.add(replace(chunks[0], samples_offset=10**12))  # of this bucket, with the highest version
    assert [gather.add(chunk) for chunk in chunks][-1]
    assert gather.by_bucket == {"many": snapshot}
    for wrong in ({"chunk": -1}, {"chunk": 3, "chunks": 3}, {"chunks": 0}, {"chunks": 2**31 - 1}):
        with pytest.raises(SnapshotCorrupt, match="chunk"):
            gather.add(replace(chunks[0], samples_offset=10**13, **wrong))


def test_as_many_features_as_settings_allow_are_read():
    assert Bucket("b", "c2ucb", dim=MAX_DIM, positions=MAX_POSITIONS)
    with pytest.raises(SettingsError):
        Bucket("b", "c2ucb", dim=MAX_DIM + 1, positions=1)


def test_sums_that_cannot_be_solved_are_still_kept():
    bucket = replace(BUCKETS["full"], ridge=0.001)
    model = bucket.model()
    samples = make_batch("full", 50, seed=1)[1]
    model.learn(replace(samples, sign=-np.ones(50, dtype=np.int64)))
    snapshot = take_snapshot(model, bucket, samples_offset=1, topic_id="t", partition=0, published_at_ms=0)
    assert snapshot.theta == b""
    assert restore_model(bucket, snapshot).sha256() == snapshot.sha256
