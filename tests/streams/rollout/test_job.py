"""A rollout on a real broker, step by step: shown, written, taken up; refused when the log has lost its beginning."""

from contextlib import closing
from dataclasses import replace

import pytest
from kafka import TopicPartition
from owned import catch_up, feed, owner_of
from sample_batches import SampleWriter, all_algorithms

from streams.broker import admin
from streams.learn.job.store import Store
from streams.logs import LogRecord
from streams.parameters import SnapshotMissing
from streams.parameters.job import KafkaParameters
from streams.rollout import RolloutError, back, onward
from streams.rollout.job import check_log, relearn, serving_of, write

BUCKETS = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "full")}


@pytest.fixture
def learned(settings_for):
    """A deployment of one partition that has learned some lists."""
    settings = settings_for(buckets=BUCKETS, partitions=1)
    writer, owner = SampleWriter(settings, taken_back=0.0), owner_of(Store(settings))
    for _ in range(4):
        writer.write(lists=30)
    owner.restore()
    feed(owner, records_of(settings, owner))
    yield settings, owner, writer
    owner.close()
    owner.store.close()
    writer.close()


def records_of(settings, owner):
    place, found = TopicPartition(f"{settings.topic_prefix}samples", 0), []
    reader = owner.store.broker.consumer()
    reader.assign([place])
    while len(found) < 8:
        found += [LogRecord(one.offset, one.timestamp, one.key, one.value) for one in reader.poll(500).get(place, ())]
    reader.close()
    return found


def catch_all_up(owner):
    for _ in range(100):
        if not owner.behind:
            return
        catch_up(owner)
    raise AssertionError(f"still behind: {owner.learner.behind_from} of {owner.learner.next_offset}")


def test_what_the_plan_has_relearned_is_what_serves_in_the_end_and_back_is_as_before(learned):
    settings, owner, writer = learned
    before = serving_of(settings, "ubm")
    plan = onward(before, {"examination": BUCKETS["ubm"].examination * 0.9})
    assert check_log(settings, plan, truncated=False) == []
    shown = relearn(settings, plan)
    assert shown.table == "the new table"
    assert (shown.model.rounds, shown.effect.lists > 0) == (before.snapshot.rounds, True)
    for step in (plan, None):
        step = step or back(serving_of(settings, "ubm"))
        write(settings, step.record(truncated=False, now_ms=0))
        owner.restore()
        assert serving_of(settings, "ubm").snapshot.epoch == step.serving.epoch, "the older one serves until then"
        catch_all_up(owner)
        found = serving_of(settings, "ubm").snapshot
        wanted = shown.model.sha256() if step is plan else writer.hashes()["ubm"]
        assert (found.epoch, found.sha256) == (step.after.epoch, wanted)
    with closing(KafkaParameters(settings)) as reader:
        reader.catch_up()
        assert reader.snapshots["full"].version == (1, found.samples_offset), "the other one was left alone"


def test_a_log_that_has_lost_its_beginning_is_taken_only_when_told(learned):
    settings, owner, _ = learned
    place = TopicPartition(f"{settings.topic_prefix}samples", 0)
    with admin(settings) as client:
        client.delete_records({place: 3})
    plan = onward(serving_of(settings, "ubm"), {"ridge": 9.0})
    with pytest.raises(RolloutError, match=r"begin at offset 3: what was before is gone.*--truncated"):
        check_log(settings, plan, truncated=False)
    assert "learned from what is left" in check_log(settings, plan, truncated=True)[0]
    write(settings, plan.record(truncated=False, now_ms=0))  # the log was cut after somebody had looked
    assert "--truncated" in owner.restore().held["ubm"]
    assert "ubm" in owner.learner.states
    again = replace(plan, after=replace(plan.after, epoch=3))
    write(settings, again.record(truncated=True, now_ms=0))
    owner.restore()
    catch_all_up(owner)
    assert serving_of(settings, "ubm").snapshot.epoch == 3


def test_a_bucket_that_nobody_knows_is_named(learned):
    settings, _, _ = learned
    with pytest.raises(RolloutError, match="no bucket 'none' in the settings; there: ubm, full"):
        serving_of(settings, "none")
    more = replace(settings, buckets={**BUCKETS, "new": replace(BUCKETS["full"], name="new")})
    with pytest.raises(SnapshotMissing, match="serves nobody needs no rollout"):
        serving_of(more, "new")
