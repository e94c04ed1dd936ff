"""The pure learner of one samples partition: batching, skipping, refusing, epochs."""

from dataclasses import replace

import numpy as np
import pytest
from published import after, caught_up, durable
from sample_batches import DIM, K, all_algorithms, make_batch, pack

from learner import Samples
from schemas.codec import decode, encode
from schemas.records import BucketStamp, DeadLetter, Progress, SampleBatch
from streams.learn import Durable, PartitionLearner, SamplesPartition, samples_of
from streams.logs import LogRecord, cut_to_fit
from streams.parameters import SnapshotCorrupt, SnapshotMissing
from streams.settings import Bucket

BUCKETS = all_algorithms()
TABLE = BUCKETS["ubm"].examination
LOG = SamplesPartition("samples", "topic-1")


def log_of(count: int) -> tuple[list[LogRecord], dict[str, list[Samples]]]:
    """Records of all buckets at offsets with gaps, as transaction markers leave them, and the samples in them."""
    records, samples = [], {name: [] for name in BUCKETS}
    for number in range(count):
        name = list(BUCKETS)[number % len(BUCKETS)]
        batch, columns = make_batch(name, lists=1 + number % 5, seed=number)
        records.append(LogRecord(number + number // 3, 0, name.encode(), encode(batch)))
        samples[name].append(columns)
    return records, samples


def hashes(learner: PartitionLearner) -> dict[str, str]:
    return {name: state.model.sha256() for name, state in learner.states.items()}


def expected(samples: dict[str, list[Samples]]) -> dict[str, str]:
    result = {}
    for name, parts in samples.items():
        model = BUCKETS[name].model()
        for part in parts:
            model.learn(part)
        result[name] = model.sha256()
    return result


def test_columns_survive_the_record():
    batch, samples = make_batch("ubm", 20, seed=1)
    again = samples_of(batch)
    for name in ("item", "position", "last_click", "reward", "context", "size", "sign"):
        np.testing.assert_array_equal(getattr(again, name), getattr(samples, name))


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_any_batching_gives_the_same_bits(size):
    records, samples = log_of(40)
    learner = PartitionLearner(BUCKETS, LOG)
    for start in range(0, len(records), size):
        learner.apply(records[start : start + size])
    assert hashes(learner) == expected(samples)
    assert learner.next_offset == records[-1].offset + 1
    assert learner.counts["lists"] == sum(len(part) for parts in samples.values() for part in parts)


def test_reading_again_learns_nothing_twice():
    records, samples = log_of(20)
    learner = PartitionLearner(BUCKETS, LOG)
    learner.apply(records[:12])
    learner.apply(records[5:])
    assert hashes(learner) == expected(samples)
    assert learner.counts["repeated"] == 7


def test_a_restart_from_what_was_published_equals_no_restart():
    records, samples = log_of(30)
    known, learner = Durable(), PartitionLearner(BUCKETS, LOG)
    for start in (0, 4, 11, 12, 21):
        learner.apply(records[start : start + 9])  # overlaps with what comes next
        known = after(known, learner.publish(now_ms=start))
        learner = PartitionLearner(BUCKETS, LOG, known)
        assert learner.next_offset == known.progress[0].next_offset
        assert not learner.behind
    assert hashes(learner) == expected(samples)


def test_what_a_learner_without_a_bucket_passed_over_is_learned_by_the_next_one():
    records, samples = log_of(30)
    known, learner = Durable(), PartitionLearner(BUCKETS, LOG)
    fewer = {name: bucket for name, bucket in BUCKETS.items() if name != "ubm"}
    for buckets, start, stop in [(BUCKETS, 0, 10), (fewer, 10, 20), (fewer, 20, 22), (BUCKETS, 22, 30)]:
        learner = PartitionLearner(buckets, LOG, known)
        learner.apply(records[start:stop])
        known = after(known, learner.publish(now_ms=start))
    assert set(learner.behind) == {"ubm"}
    known = after(known, caught_up(learner, records))
    assert hashes(learner) == expected(samples)
    assert not PartitionLearner(BUCKETS, LOG, known).behind


def test_what_was_refused_once_has_one_dead_letter_even_when_it_is_read_again():
    records, _ = log_of(12)
    records[5] = LogRecord(records[5].offset, 0, None, b"?")
    fewer = {name: bucket for name, bucket in BUCKETS.items() if name != "ubm"}
    first = PartitionLearner(fewer, LOG)
    first.apply(records)
    made = first.publish(now_ms=1)
    assert len(made.refused) > 1
    again = PartitionLearner(BUCKETS, LOG, durable(made))
    again.apply([LogRecord(99, 0, None, b"!")])
    assert [letter.offset for letter in caught_up(again, records).refused] == [99]


def test_a_dead_letter_fits_a_record_whatever_it_quotes():
    large = "ß" * 600_000
    letter = cut_to_fit(
        DeadLetter("samples", 0, 1, 2, b"k" * 700_000, large.encode(), f"bucket {large!r} is not learned")
    )
    assert len(encode(letter)) < 1_000_000
    assert letter.reason.startswith("bucket 'ßß")
    assert "is not learned" in letter.reason
    assert letter.reason.endswith("(the first 900000 of 1200000 bytes of its value)")
    small = DeadLetter("samples", 0, 1, 2, None, b"?", "unreadable")
    assert cut_to_fit(small) == small


def test_only_changed_buckets_are_published_and_new_ones_at_once():
    learner = PartitionLearner(BUCKETS, LOG, log_start=7)
    first, progress, *_ = learner.publish(now_ms=1)
    assert {snapshot.bucket for snapshot in first} == set(BUCKETS)
    assert {snapshot.version for snapshot in first} == {(1, 7)}
    assert progress == Progress("topic-1", 0, 7, 1, [BucketStamp(name, 1, 7) for name in sorted(BUCKETS)], 7)
    batch, _ = make_batch("full", 2, seed=3)
    learner.apply([LogRecord(9, 0, None, encode(batch))])
    [second], progress, *_ = learner.publish(now_ms=2)
    assert (second.bucket, second.version, progress.next_offset) == ("full", (1, 10), 10)
    assert learner.publish(now_ms=3)[0] == []


def bad_position() -> bytes:
    batch, _ = make_batch("ubm", 1, seed=1)
    return encode(replace(batch, positions=bytes(len(batch.positions))))


def beyond_scale() -> bytes:
    _, samples = make_batch("ubm", 1, seed=1)
    return encode(pack("ubm", replace_context(samples, 1.5)))


def not_a_number() -> bytes:
    _, samples = make_batch("ubm", 1, seed=1)
    batch = pack("ubm", samples)
    contexts = np.frombuffer(batch.contexts, "<f4").copy()
    contexts[1] = np.nan
    return encode(replace(batch, contexts=contexts.tobytes()))


def replace_context(samples: Samples, value: float) -> Samples:
    context = samples.context.copy()
    context[0, 0] = value
    return replace(samples, context=context)


def too_deep() -> bytes:
    samples = Samples.from_clicks(np.zeros((1, K + 1, DIM)), np.zeros((1, K + 1)))
    return encode(pack("full", samples))


POISON = {
    "random bytes": (lambda: b"\x00\xff garbage", ""),
    "no bytes at all": (lambda: None, "empty"),
    "another record": (lambda: encode(Progress("t", 0, 1, 2, [], 1)), ""),
    "truncated": (lambda: encode(make_batch("ubm", 3, seed=1)[0])[:-9], ""),
    "unknown bucket": (lambda: encode(make_batch("nobody", 3, seed=1)[0]), "'nobody' is not learned"),
    "another dimension": (lambda: encode(make_batch("ubm", 3, seed=1, dim=DIM + 1)[0]), "4 features"),
    "a sign of 0": (lambda: encode(replace(make_batch("ubm", 3, seed=1)[0], signs=bytes(3))), "sign"),
    "position 0": (bad_position, "position"),
    "beyond the scale": (beyond_scale, "context_scale"),
    "not a number": (not_a_number, "context"),
    "deeper than the bucket": (too_deep, "position"),
}


@pytest.mark.parametrize("value, reason", POISON.values(), ids=POISON)
def test_what_cannot_be_learned_is_a_dead_letter_and_changes_nothing(value, reason):
    records, samples = log_of(10)
    poison = LogRecord(5_000, 99, b"k", value())
    later = [record._replace(offset=record.offset + 6_000) for record in records[5:]]
    learner = PartitionLearner(BUCKETS, LOG)
    learner.apply([*records[:5], poison, *later])
    assert hashes(learner) == expected(samples)
    _, _, [letter], *_ = learner.publish(now_ms=0)
    assert (letter.topic, letter.partition, letter.offset, letter.timestamp_ms) == ("samples", 0, 5_000, 99)
    assert (letter.key, letter.value) == (b"k", poison.value)
    assert reason in letter.reason
    assert learner.publish(now_ms=1)[2] == []


def corrected(*, old: float, new: float) -> SampleBatch:
    """Five lists; the second and the fourth are a correction, whose two versions have a context of these sizes."""
    contexts = np.full((5, K, DIM), 0.1, np.float32)
    contexts[1], contexts[3] = old, new
    samples = Samples.from_clicks(contexts, np.zeros((5, K)), sign=[1, -1, 1, 1, 1])
    return replace(pack("ubm", samples), impression_ids=["a", "b", "c", "b", "d"])


PAIRS = {"the new version": {"old": 0.2, "new": 9.0}, "the old version": {"old": 9.0, "new": 0.2}}


@pytest.mark.parametrize("sizes", PAIRS.values(), ids=PAIRS)
def test_a_list_that_cannot_be_learned_takes_its_correction_with_it_and_nothing_else(sizes):
    learner = PartitionLearner(BUCKETS, LOG)
    learner.apply([LogRecord(3, 99, b"k", encode(corrected(**sizes)))])
    good = BUCKETS["ubm"].model()
    good.learn(Samples.from_clicks(np.full((3, K, DIM), 0.1, np.float32), np.zeros((3, K))))
    assert learner.states["ubm"].model.sha256() == good.sha256()
    assert (learner.counts["lists"], learner.counts["rows"]) == (3, 3 * K)
    _, _, [letter], *_ = learner.publish(now_ms=0)
    assert (letter.offset, letter.timestamp_ms, letter.key) == (3, 99, b"k")
    assert letter.reason.startswith("2 of 5 lists, the first since context[")
    refused = decode(letter.value, SampleBatch)
    assert (refused.impression_ids, refused.signs_array.tolist()) == (["b", "b"], [-1, 1])
    assert np.unique(refused.contexts_array).tolist() == pytest.approx(sorted(sizes.values()))


def test_less_than_what_progress_tells_is_refused_and_says_what_to_do():
    records, _ = log_of(20)
    learner = PartitionLearner(BUCKETS, LOG)
    learner.apply(records[:10])
    older = durable(learner.publish(now_ms=0))
    learner.apply(records[10:])
    newer = after(older, learner.publish(now_ms=1))
    old = older.snapshots["ubm"]
    for found, said in ((old, f"only ubm@1.{old.samples_offset} can be read"), (None, "no snapshot of it can be read")):
        known = replace(newer, snapshots={**newer.snapshots, "ubm": found})
        with pytest.raises(SnapshotMissing, match=said) as refusal:
            PartitionLearner(BUCKETS, LOG, known)
        assert "epoch = 2" in str(refusal.value)
    raised = BUCKETS | {"ubm": replace(BUCKETS["ubm"], epoch=2)}
    again = PartitionLearner(raised, LOG, replace(newer, snapshots={**newer.snapshots, "ubm": old}))
    assert again.behind_from == 0
    assert "ubm" not in again.states, "what lies between the old one and the progress would be missing"


def published(bucket: Bucket, log: SamplesPartition = LOG) -> Durable:
    learner = PartitionLearner({bucket.name: bucket}, log)
    learner.apply([LogRecord(0, 0, None, encode(make_batch(bucket.name, 3, seed=5)[0]))])
    return durable(learner.publish(now_ms=0))


CHANGES = {
    "algorithm": ({"algorithm": "c2ucb"}, "'c2ucb' (snapshot: 'ubm-linucb')"),
    "ridge": ({"ridge": 9.0}, "ridge 9.0 (snapshot: "),
    "reward scale": ({"reward_scale": 2.0}, "reward_scale 2.0 (snapshot: 1.0)"),
    "context scale": ({"context_scale": 3.0}, "context_scale 3.0 (snapshot: 1.0)"),
    "dimension": ({"dim": 5}, "dim 5 (snapshot: 3)"),
    "table": ({"examination": TABLE * 0.9}, "examination_sha256"),
    "epoch going back": ({"epoch": 1}, "epoch 1 (snapshot: 2)"),
}


@pytest.mark.parametrize("change, said", CHANGES.values(), ids=CHANGES)
def test_a_changed_bucket_is_held_alone_and_says_what_to_do(change, said):
    bucket = replace(BUCKETS["ubm"], epoch=2)
    learner = PartitionLearner({"ubm": replace(bucket, **change), "full": BUCKETS["full"]}, LOG, published(bucket))
    assert said in learner.held["ubm"]
    assert "glimpse rollout --bucket ubm" in learner.held["ubm"]
    assert "epoch = 3" in learner.held["ubm"]
    learner.apply([LogRecord(9, 0, None, encode(make_batch(name, 3, seed=5)[0])) for name in ("ubm", "full")])
    made = caught_up(learner, [])
    assert ([one.bucket for one in made.snapshots], made.refused) == (["full"], [])


def test_what_was_held_is_learned_from_its_own_stamp_once_its_settings_are_mended():
    records, samples = log_of(30)
    records[25] = LogRecord(records[25].offset, 0, None, beyond_scale())
    learner = PartitionLearner(BUCKETS, LOG)
    learner.apply(records[:10])
    known = durable(learner.publish(now_ms=0))
    wrong = BUCKETS | {"ubm": replace(BUCKETS["ubm"], ridge=9.0)}
    learner = PartitionLearner(wrong, LOG, known)
    learner.apply(records[10:])
    made = learner.publish(now_ms=1)
    assert made.refused == []
    mended = PartitionLearner(BUCKETS, LOG, after(known, made))
    assert [letter.offset for letter in caught_up(mended, records).refused] == [records[25].offset]
    samples[list(BUCKETS)[25 % len(BUCKETS)]].pop(25 // len(BUCKETS))
    assert hashes(mended) == expected(samples)


def test_another_samples_topic_is_refused():
    learner = PartitionLearner({"ubm": BUCKETS["ubm"]}, replace(LOG, topic_id="topic-2"), published(BUCKETS["ubm"]))
    assert "samples_topic_id 'topic-2' (snapshot: 'topic-1')" in learner.held["ubm"]


def test_another_alpha_is_no_other_model():
    known = published(BUCKETS["ubm"])
    learner = PartitionLearner({"ubm": replace(BUCKETS["ubm"], alpha=0.25)}, LOG, known)
    assert learner.states["ubm"].model.alpha == 0.25
    assert learner.states["ubm"].model.rounds == known.snapshots["ubm"].rounds


def test_a_corrupt_snapshot_is_refused():
    known = published(BUCKETS["ubm"])
    bad = replace(known, snapshots={"ubm": replace(known.snapshots["ubm"], sha256="0" * 64)})
    with pytest.raises(SnapshotCorrupt, match=r"ubm@1\.1"):
        PartitionLearner({"ubm": BUCKETS["ubm"]}, LOG, bad)
