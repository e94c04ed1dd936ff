"""The clock of a log: what one record or one session claims moves nobody else's verdict."""

from random import Random

import pytest
from join_events import T0, World
from kafka import TopicPartition

from streams.join import Commit
from streams.join.clock import MOST_MARKS, TopStamps, key_hash
from streams.join.commit import MAX_METADATA_BYTES, NEVER
from streams.join.job.owner import JoinOwner
from streams.settings import LogPair


@pytest.mark.parametrize("seed", range(20))
def test_the_clock_is_the_second_largest_stamp_over_distinct_keys(seed):
    rng, largest, wanted = Random(seed), {}, []
    keys = [rng.choice([None, b"a", b"b", b"c", b""]) for _ in range(60)]
    stamps = [rng.randint(0, 40) for _ in keys]
    for key, stamp in zip(keys, stamps, strict=True):
        largest[key] = max(stamp, largest.get(key, 0))
        wanted.append(sorted([NEVER, *largest.values()])[-2])
    top, found, at = TopStamps(NEVER, "", NEVER), [], 0
    while at < len(keys):
        step = rng.randint(1, 7)
        found += top.clocks(stamps[at : at + step], keys[at : at + step])
        at += step
        if rng.random() < 0.5:  # a commit keeps the two stamps and the hash of one key
            top = TopStamps(top.first, top.first_key, top.clock)
    assert found == wanted


def test_a_stamp_of_the_far_future_hurts_its_own_record_alone():
    world = World()
    for number in range(100):
        world.show(f"a{number}", at=number, key=b"s%d" % number)
    world.show("far", at=100, arrives=10**9, key=b"bad")
    world.show("also far", at=101, arrives=10**9, key=b"bad")
    world.click(1, at=100, arrives=10**9, name="a99", key=b"bad")
    for number in range(100, 200):
        world.show(f"a{number}", at=number, key=b"s%d" % number)
        world.click(1, at=number, name=f"a{number}", key=b"s%d" % number)
    checkpoint = world.checkpoint(at=199)
    assert [letter.offset for letter in checkpoint.dead_letters] == [100, 101]
    assert (world.join.ledger.too_late, world.join.ledger.used) == (2, 100)
    resumed = World(resume=Commit.decode(*checkpoint.commit.encode())[0], known=world.known)
    for _, record in sorted(world.written["impressions"].items()):
        if record.offset >= checkpoint.commit.impressions.restart.offset:
            resumed.join.add_impressions([record])
    for _, record in sorted(world.written["clicks"].items()):
        if record.offset >= checkpoint.commit.clicks.restart.offset:
            resumed.join.add_clicks([record])
    assert not resumed.join.rebuilding
    assert resumed.join.impressions.clock == T0 + 199_000
    assert resumed.join.ledger == world.join.ledger


def test_records_without_a_key_are_one_session():
    world = World()
    for number in range(5):
        world.show(f"i{number}", at=1000 * number, key=None)
    assert world.join.impressions.clock == NEVER
    assert world.join.time_ms == T0 + 4_000_000, "all that is known, while there is one key"
    world.show("j", at=3_990)
    assert world.join.impressions.clock == T0 + 3_990_000
    assert key_hash(None) != key_hash(b"")


def test_time_goes_on_in_silence_by_a_monotonic_clock_and_what_the_commit_says():
    clock, world = [1e6], World()
    inputs = LogPair(TopicPartition("impressions", 0), TopicPartition("clicks", 0))
    owner = JoinOwner(inputs, now=lambda: clock[0])
    owner.open(world.join, Commit.beginning())
    assert owner.idle_ms() == NEVER, "logs without any stamp close nothing"
    world.time_passes(10)
    clock[0] = 50.0
    owner.idle_ms()
    clock[0] = 53.5
    assert owner.idle_ms() == T0 + 13_500
    world.time_passes(11)
    clock[0] = 55.0
    assert owner.idle_ms() == T0 + 15_000, "it does not go back"
    world.join.idle(impressions_ms=T0 + 900_000, clicks_ms=T0 + 900_000)
    resumed = World(resume=world.checkpoint(at=1).commit, known=world.known)
    assert resumed.join.time_ms == T0 + 900_000


def test_what_silence_has_closed_stays_closed_to_stamps_from_before_it():
    world = World()
    world.show("old")
    world.join.idle(impressions_ms=T0 + 500_000, clicks_ms=T0 + 500_000)
    world.checkpoint(at=500)
    world.click(1, at=1)  # the broker's clock went back, or the log was not at its end
    world.show("back in time", at=100)
    checkpoint = world.checkpoint(at=500)
    assert [late.offset for late in checkpoint.late_clicks] == [0]
    assert [letter.offset for letter in checkpoint.dead_letters] == [1]
    for part in (checkpoint.commit.impressions, checkpoint.commit.clicks):
        assert all(mark.floor == T0 + 380_000 for mark in part.marks)


def test_marks_of_silence_are_bounded():
    world = World()
    for number in range(3 * MOST_MARKS):
        world.show(f"i{number}", at=100 * number + 99)
        world.join.idle(impressions_ms=T0 + 100_000 * (number + 2))
        metadata = world.checkpoint(at=0).commit.encode(LogPair("x" * 36, "y" * 36))[0][1]
        assert len(metadata) < MAX_METADATA_BYTES
    assert world.join.ledger.balanced
