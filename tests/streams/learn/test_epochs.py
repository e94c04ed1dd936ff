"""A new epoch is a candidate until it has caught up with the log; until then the older one serves and learns on."""

from dataclasses import replace

import numpy as np
import pytest
from published import after, durable
from sample_batches import all_algorithms, make_batch

from schemas.codec import encode
from streams.learn import Durable, PartitionLearner, SamplesPartition
from streams.logs import LogRecord
from streams.parameters import before_of, in_force, overruled, rollout_of

BUCKETS = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "full")}
TABLE = BUCKETS["ubm"].examination
LOG = SamplesPartition("samples", "topic-1")
OTHER = {  # what a rollout may change
    "table": {"examination": TABLE * 0.9},
    "ridge": {"ridge": 9.0},
    "alpha": {"alpha": 0.25},
    "algorithm": {"algorithm": "c2ucb"},
}


def log_of(count, *, start=0):
    """Records of both buckets in turn, at offsets with gaps as markers leave them."""
    names = list(BUCKETS)
    return [
        LogRecord(2 * n, 0, None, encode(make_batch(names[n % 2], lists=1 + n % 3, seed=n)[0]))
        for n in range(start, start + count)
    ]


def learned(bucket, records):
    """The hash of a bucket that has learned these records, as a replay would."""
    return replayed(bucket, records).sha256()


def replayed(bucket, records):
    learner = PartitionLearner({bucket.name: bucket}, LOG)
    learner.apply(records)
    return learner.states[bucket.name].model


def first_epoch(records):
    learner = PartitionLearner(BUCKETS, LOG)
    learner.apply(records)
    return durable(learner.publish(now_ms=0))


def rolled(known, **change):
    """What is known after a rollout of bucket ubm, and the bucket as it is then."""
    bucket = replace(BUCKETS["ubm"], **change, epoch=2)
    return replace(known, rollouts={"ubm": rollout_of(bucket, BUCKETS["ubm"], now_ms=0)}), bucket


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_killed_at_any_step_a_candidate_ends_as_a_replay_and_the_others_never_wait(change):
    records = log_of(40)
    known, bucket = rolled(first_epoch(records[:20]), **change)
    served = [known.snapshots["ubm"].samples_offset]
    for step in range(1, 40):
        learner = PartitionLearner(BUCKETS, LOG, known)  # killed, and made again from what is durable
        head = min(20 + step, 40)
        learner.apply(records[:head])
        assert learner.next_offset == records[head - 1].offset + 1
        start = learner.behind_from
        if start is not None:
            some = [record for record in records[:head] if record.offset >= start][:3]
            learner.catch_up(some, read_to=some[-1].offset + 1 if some else learner.next_offset)
        known = after(known, learner.publish(now_ms=step))
        served.append(known.snapshots["ubm"].samples_offset)
        assert known.snapshots["ubm"].rounds == replayed(bucket, records[:head]).rounds, "every list, at every step"
        if known.snapshots["ubm"].epoch == 1:
            assert known.snapshots["ubm"].sha256 == learned(BUCKETS["ubm"], records[:head])
            assert known.candidates["ubm"].epoch == 2
        assert known.snapshots["full"].sha256 == learned(BUCKETS["full"], records[:head])
    assert known.snapshots["ubm"].epoch == 2
    assert known.snapshots["ubm"].sha256 == learned(bucket, records)
    assert known.candidates == {}
    assert served[5] > served[0], "the older one learns on"


def test_going_back_is_a_higher_epoch_with_the_old_settings():
    records = log_of(20)
    known, bucket = rolled(first_epoch(records), ridge=9.0)
    back = rollout_of(replace(BUCKETS["ubm"], epoch=3), bucket, now_ms=1)
    for rollout in (None, back):
        if rollout is not None:
            known = replace(known, rollouts={"ubm": rollout})
        learner = PartitionLearner(BUCKETS, LOG, known)
        learner.catch_up(records, read_to=learner.next_offset)
        known = after(known, learner.publish(now_ms=2))
    assert known.snapshots["ubm"].epoch == 3
    assert known.snapshots["ubm"].sha256 == learned(BUCKETS["ubm"], records)


def test_a_second_rollout_before_the_first_has_caught_up_starts_anew_and_the_served_one_learns_on():
    records = log_of(30)
    known, bucket = rolled(first_epoch(records[:20]), ridge=9.0)
    learner = PartitionLearner(BUCKETS, LOG, known)
    learner.catch_up(records[:5], read_to=records[5].offset)
    known = after(known, learner.publish(now_ms=1))
    assert known.candidates["ubm"].samples_offset == records[5].offset
    third = replace(bucket, ridge=4.0, epoch=3)
    known = replace(known, rollouts={"ubm": rollout_of(third, BUCKETS["ubm"], now_ms=1)})
    learner = PartitionLearner(BUCKETS, LOG, known)
    assert learner.behind_from == 0
    learner.apply(records[20:])
    known = after(known, learner.publish(now_ms=2))
    assert known.snapshots["ubm"].sha256 == learned(BUCKETS["ubm"], records)
    learner.catch_up(records, read_to=learner.next_offset)
    known = after(known, learner.publish(now_ms=3))
    assert known.snapshots["ubm"].sha256 == learned(third, records)


def test_an_epoch_raised_in_the_settings_is_a_candidate_too():
    records = log_of(20)
    raised = BUCKETS | {"full": replace(BUCKETS["full"], ridge=7.0, epoch=2)}
    learner = PartitionLearner(raised, LOG, first_epoch(records))
    made = learner.publish(now_ms=1)
    assert (made.snapshots, [one.version for one in made.candidates]) == ([], [(2, 0)])
    learner.catch_up(records, read_to=learner.next_offset)
    made = learner.publish(now_ms=2)
    assert ([one.bucket for one in made.snapshots], made.promoted) == (["full"], ["full"])
    assert made.snapshots[0].sha256 == learned(raised["full"], records)


def test_without_the_older_table_that_epoch_still_serves_and_the_new_one_writes_the_dead_letters():
    records = log_of(30)
    known = first_epoch(records[:20])
    bad = make_batch("ubm", 1, seed=3)[0]
    records[25] = LogRecord(50, 0, None, encode(replace(bad, signs=bytes(1))))
    raised = BUCKETS | {"ubm": replace(BUCKETS["ubm"], examination=TABLE * 0.9, epoch=2)}
    learner = PartitionLearner(raised, LOG, known)
    assert "ubm" not in learner.states
    learner.apply(records[20:])
    made = learner.publish(now_ms=1)
    assert made.refused == []
    learner.catch_up(records, read_to=learner.next_offset)
    made = learner.publish(now_ms=2)
    assert [letter.offset for letter in made.refused] == [50]
    assert [(one.bucket, one.epoch) for one in made.snapshots] == [("ubm", 2)]


def test_a_refused_list_of_a_served_bucket_has_one_dead_letter():
    records = log_of(30)
    bad = make_batch("ubm", 1, seed=3)[0]
    records[24] = LogRecord(48, 0, None, encode(replace(bad, signs=bytes(1))))
    known, _ = rolled(first_epoch(records[:20]), ridge=9.0)
    learner = PartitionLearner(BUCKETS, LOG, known)
    learner.apply(records[20:])
    assert [letter.offset for letter in learner.publish(now_ms=1).refused] == [48]
    learner.catch_up(records, read_to=learner.next_offset)
    assert learner.publish(now_ms=2).refused == []


def test_a_log_without_its_beginning_is_rolled_out_only_when_told():
    records = log_of(20)
    known, bucket = rolled(first_epoch(records), ridge=9.0)
    learner = PartitionLearner(BUCKETS, LOG, known, log_start=4)
    assert "glimpse rollout --bucket ubm --truncated" in learner.held["ubm"]
    assert set(learner.states) == {"ubm", "full"}, "the older one goes on"
    told = rollout_of(bucket, BUCKETS["ubm"], truncated=True, now_ms=0)
    learner = PartitionLearner(BUCKETS, LOG, replace(known, rollouts={"ubm": told}), log_start=4)
    learner.catch_up(records[2:], read_to=learner.next_offset)
    [snapshot] = learner.publish(now_ms=1).snapshots
    assert snapshot.sha256 == learned(bucket, records[2:])


def test_a_candidate_of_other_settings_is_not_gone_on_with():
    records = log_of(20)
    known, bucket = rolled(first_epoch(records), ridge=9.0)
    learner = PartitionLearner(BUCKETS, LOG, known)
    learner.catch_up(records[:5], read_to=records[5].offset)
    known = after(known, learner.publish(now_ms=1))
    other = rollout_of(replace(bucket, ridge=4.0), BUCKETS["ubm"], now_ms=2)
    learner = PartitionLearner(BUCKETS, LOG, replace(known, rollouts={"ubm": other}))
    assert "ridge 4.0 (snapshot: 9.0)" in learner.held["ubm"]
    assert "ubm" in learner.states


def test_a_rollout_that_does_not_fit_the_settings_holds_its_bucket_alone():
    known, _ = rolled(Durable(), examination=TABLE * 0.9)
    shorter = replace(BUCKETS["ubm"], examination=np.tri(2), positions=2)
    learner = PartitionLearner(BUCKETS | {"ubm": shorter}, LOG, known)
    assert "its rollout (epoch 2) says" in learner.held["ubm"]
    assert set(learner.states) == {"full"}


FULL = '{"algorithm":"ubm-linucb","alpha":null,"ridge":null,"beta":null,"examination":%s}'
HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[1]",
    "too little": b"{}",
    "no table": (FULL % '"x"').encode(),
    "a ragged table": (FULL % "[[1],[1,2]]").encode(),
    "numbers beyond all bounds": (FULL % f"[[{'9' * 400}]]").encode(),
    "no algorithm": (FULL % "null").replace('"ubm-linucb"', "[]").encode(),
    "no ridge": (FULL % "null").replace('"ridge":null', '"ridge":{}').encode(),
    "no number": (FULL % "null").replace('"alpha":null', '"alpha":NaN').encode(),
}


@pytest.mark.parametrize("settings", HOSTILE.values(), ids=HOSTILE)
def test_a_rollout_that_is_none_holds_its_bucket_alone(settings):
    records = log_of(6)
    known = first_epoch(records)
    rollout = replace(rollout_of(BUCKETS["ubm"], None, now_ms=0), settings=settings, epoch=2)
    learner = PartitionLearner(BUCKETS, LOG, replace(known, rollouts={"ubm": rollout}))
    assert "cannot be learned as its rollout (epoch 2) says" in learner.held["ubm"]
    assert set(learner.states) == {"full"}


def test_a_rollout_is_in_force_over_settings_of_no_higher_epoch_and_says_so():
    bucket = BUCKETS["ubm"]
    other = replace(bucket, examination=TABLE * 0.9, epoch=2)
    rollout = rollout_of(other, bucket, now_ms=0)
    found = in_force(bucket, rollout)
    assert found.model().settings() == other.model().settings()
    assert found.epoch == 2
    assert "is in force over examination of the settings" in overruled(bucket, rollout)
    higher = replace(bucket, epoch=3)
    assert (in_force(higher, rollout), overruled(higher, rollout)) == (higher, None)
    assert overruled(other, rollout) is None, "the same is no news"


def test_what_an_epoch_before_was_learned_with_is_found_or_not():
    records = log_of(6)
    bucket = BUCKETS["ubm"]
    other = replace(bucket, examination=TABLE * 0.9, epoch=2)
    snapshots = first_epoch(records).snapshots
    by_rollout = before_of(other, rollout_of(other, bucket, now_ms=0), snapshots["ubm"])
    assert by_rollout.model().settings() == bucket.model().settings()
    assert before_of(other, None, snapshots["ubm"]) is None
    raised = replace(BUCKETS["full"], ridge=7.0, epoch=2)
    assert before_of(raised, None, snapshots["full"]).model().sha256() == BUCKETS["full"].model().sha256()
