"""A shadow learns its host's samples beside it, with sums of its own, and nobody notices."""

from contextlib import closing
from dataclasses import replace

import pytest
from owned import feed, owner_of
from published import after
from replay_runs import SETTINGS, play
from sample_batches import SampleWriter, all_algorithms, make_batch

from schemas.codec import encode
from streams.broker import partition_of
from streams.learn import Durable, PartitionLearner, SamplesPartition
from streams.learn.job.store import Store
from streams.logs import Archive, ArchiveSource, LogRecord
from streams.logs.job import KafkaSource
from streams.parameters import DirectoryParameters
from streams.replay import live_snapshots, plan_of
from streams.replay.job import replay
from streams.settings import Bucket, Settings, SettingsError

BUCKETS = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "full")}
SHADOW = replace(BUCKETS["full"], name="shadow", host="ubm", weight=0.0)
BOTH = BUCKETS | {"shadow": SHADOW}
LOG = SamplesPartition("samples", "topic-1")


def log_of(count):
    records = []
    for number in range(count):
        name = list(BUCKETS)[number % 2]
        batch, _ = make_batch(name, lists=1 + number % 5, seed=number)
        records.append(LogRecord(number + number // 3, 0, name.encode(), encode(batch)))
    return records


def of_host(records, bucket):
    """The hash of a bucket that had learned the host's samples as its own."""
    learner = PartitionLearner({"ubm": replace(bucket, name="ubm", host=None)}, LOG)
    learner.apply([record for record in records if record.key == b"ubm"])
    return learner.states["ubm"].model.sha256()


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_shadow_is_what_its_host_would_be_with_its_settings_and_the_others_are_as_without_it(size):
    records = log_of(40)
    alone, learner = PartitionLearner(BUCKETS, LOG), PartitionLearner(BOTH, LOG)
    for one in (alone, learner):
        for start in range(0, 40, size):
            one.apply(records[start : start + size])
    assert learner.states["shadow"].model.sha256() == of_host(records, SHADOW)
    for name in BUCKETS:
        assert learner.states[name].model.sha256() == alone.states[name].model.sha256()
    assert (learner.counts, learner.dead_letters) == (alone.counts, alone.dead_letters)


def test_killed_at_any_step_it_ends_the_same_and_one_that_comes_later_catches_up():
    records, known = log_of(40), Durable()
    for step in range(1, 14):
        learner = PartitionLearner(BUCKETS if step < 5 else BOTH, LOG, known)  # made again from what is durable
        learner.apply(records[: 3 * step])
        if learner.behind_from is not None:
            behind = [record for record in records[: 3 * step] if record.offset >= learner.behind_from]
            learner.catch_up(behind, read_to=learner.next_offset)
        known = after(known, learner.publish(now_ms=step))
        if step >= 5:
            assert known.snapshots["shadow"].sha256 == of_host(records[: 3 * step], SHADOW)
    assert known.snapshots["ubm"].sha256 == of_host(records[:39], BUCKETS["ubm"])


def test_lists_that_only_the_shadow_cannot_learn_are_no_dead_letters():
    small = replace(SHADOW, context_scale=0.01)
    records = log_of(10)
    learner = PartitionLearner(BUCKETS | {"shadow": small}, LOG)
    learner.apply(records)
    assert learner.dead_letters == []
    assert learner.states["shadow"].model.rounds == 0
    assert learner.states["ubm"].model.rounds > 0


def test_an_embedded_run_and_its_replay_learn_the_shadow_on_the_hosts_partition(tmp_path):
    shadow = Bucket("shadow", "c2ucb", dim=4, positions=5, host="ubm", weight=0.0)
    settings = replace(SETTINGS, buckets={**SETTINGS.buckets, "shadow": shadow})
    play(tmp_path, 3, settings)
    found = {name: DirectoryParameters(tmp_path / "snapshots").newest(name) for name in settings.buckets}
    assert found["shadow"].samples_partition == found["ubm"].samples_partition == partition_of("ubm", 3)
    assert found["shadow"].rounds == found["ubm"].rounds > 100
    plan, _ = plan_of(ArchiveSource(Archive(tmp_path)), settings, samples=True, finish=False)
    assert {name: model.sha256() for name, model in replay(plan).models.items()} == {
        name: snapshot.sha256 for name, snapshot in found.items()
    }


WRONG = {
    "no such host": ({"host": "nobody"}, "must be another bucket"),
    "its own host": ({"host": "shadow"}, "must be another bucket"),
    "a shadow that serves": ({"weight": 1.0}, "weight = 0"),
    "other features": ({"dim": 7}, "must be that of its host"),
    "shorter lists": ({"positions": 2}, "must be at least those of its host"),
}


@pytest.mark.parametrize("change, words", WRONG.values(), ids=WRONG)
def test_a_shadow_that_could_not_learn_is_refused(change, words):
    with pytest.raises(SettingsError, match=words):
        Settings(buckets=BUCKETS | {"shadow": replace(SHADOW, **change)})


def test_on_kafka_the_owner_of_the_hosts_partition_learns_and_publishes_the_shadow(settings_for):
    settings = settings_for(partitions=4, buckets=BOTH)
    writer = SampleWriter(replace(settings, buckets=BUCKETS))
    for _ in range(3):
        writer.write()
    home = partition_of("ubm", 4)
    first, second = (owner_of(Store(settings), home) for _ in range(2))
    assert "shadow" in first.restore().states
    with closing(KafkaSource(settings)) as source:
        records = [
            record
            for block in source.read("samples", home, *source.bounds("samples", home))
            for record in block.records()
        ]
        feed(first, records)
        found = live_snapshots(source)
    assert found["shadow"].sha256 == of_host([record for record in records if record.key == b"ubm"], SHADOW)
    assert found["shadow"].samples_partition == home
    assert found["ubm"].sha256 == writer.hashes()["ubm"]
    assert second.restore().states["shadow"].model.sha256() == found["shadow"].sha256
    for owner in (first, second):
        owner.close()
    writer.close()
