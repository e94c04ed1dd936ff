"""What large, repeated and many events cost a join: bounded bytes, constant time, memory that comes back."""

import time
from dataclasses import replace

import numpy as np
import pytest
from join_events import BUCKET, T0, World
from msgspec import structs

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance
from streams.events.acceptance import SPARE_BYTES
from streams.join import Commit
from streams.join import columns as join_columns
from streams.logs import LogRecord

MOST = 6 * (8 + 4 * 2) + SPARE_BYTES  # of an event in the world of these tests
MEGABYTE = 1_000_000


def shown(name: str, at: int = 0, **changes) -> Impression:
    items, contexts = np.arange(6, dtype="<i8").tobytes(), np.zeros(12, "<f4").tobytes()
    return structs.replace(Impression(name, "s", "main", "u", T0 + at, items, contexts, 6), **changes)


LARGE = {
    "junk in impressions": ("impressions", b"s", b"\xff" * MEGABYTE),
    "a key in impressions": ("impressions", b"k" * MEGABYTE, encode(shown("i"))),
    "a bucket's name": ("impressions", b"s", encode(shown("i", bucket="b" * MEGABYTE))),
    "an id in clicks": ("clicks", b"s", encode(Click("i" * MEGABYTE, "s", 1, T0))),
    "a key in clicks": ("clicks", b"k" * MEGABYTE, encode(Click("i", "s", 1, T0))),
    "one byte too many": ("clicks", b"s", bytes(MOST)),
}


@pytest.mark.parametrize("log, key, value", LARGE.values(), ids=LARGE)
def test_an_event_beyond_its_limit_is_refused_before_it_is_decoded(log, key, value):
    took = []
    for _ in range(3):
        world = World()
        getattr(world.join, f"add_{log}")([LogRecord(7, T0, key, value)])
        started = time.thread_time()
        [letter] = world.checkpoint(at=1).dead_letters
        took.append(time.thread_time() - started)
    assert min(took) < 0.1
    assert letter.offset == 7
    assert letter.reason.startswith(f"an event of {len(key) + len(value)} bytes; at most {MOST}, the key included")
    assert len(encode(letter)) < MOST + 60_000
    assert world.join.ledger.balanced


def test_ids_of_clicks_have_a_limit_and_long_names_are_not_quoted():
    world = World()
    world.give("clicks", Click("i" * 256, "s", 1, T0), at=0)
    world.give("clicks", Click("ß" * 129, "s", 1, T0), at=0)
    world.give("clicks", Click("i", "s" * 257, 1, T0), at=0)
    world.show(bucket="b" * 10_000)
    letters = {(one.topic, one.offset): one.reason for one in world.checkpoint(at=1).dead_letters}
    assert letters["clicks", 1] == "an id of 258 bytes; at most 256"
    assert letters["clicks", 2] == "an id of 257 bytes; at most 256"
    assert letters["impressions", 0] == f"unknown bucket '{'b' * 80}…'; configured are main"
    assert world.join.ledger.waiting == 1


def test_what_came_of_feeding_and_what_closes_share_the_bytes_of_a_checkpoint():
    world, most = World(), 40_000
    for number in range(60):
        world.show(f"i{number:02}", at=number / 10)
    junk = [LogRecord(number, T0, b"s", bytes(10_000)) for number in range(8)]
    count = world.join.room_for(junk, most)
    assert count == 2, "each may become a letter, and the half that fits is fed"
    world.join.add_clicks(junk[:count])
    assert world.join.room_for(junk[count:], most) == 1
    first = world.join.checkpoint(T0 + 90_000, most_bytes=most)
    assert len(first.dead_letters) == 2
    assert 0 < sum(len(batch.sizes) for batch in first.samples) < 60
    sizes = [len(encode(record)) for record in (*first.samples, *first.dead_letters)]
    assert sum(sizes) < most
    assert world.join.room_for([LogRecord(9, T0, b"s", bytes(MEGABYTE))], most) == 1, "one always goes on"


def restarted(world: World, commit: Commit) -> World:
    """Return a world whose join has reread what a commit needs, clicks last."""
    commit = Commit.decode(*commit.encode())[0]
    again = World(resume=commit, known=world.known)
    again.written, again.offsets = world.written, world.offsets
    for name, part in (("impressions", commit.impressions), ("clicks", commit.clicks)):
        records = [one for offset, one in world.written[name].items() if offset >= part.restart.offset]
        getattr(again.join, f"add_{name}")(records, part.processed)
    return again


@pytest.mark.parametrize("restarts", [False, True], ids=["one worker", "a restart after each checkpoint"])
def test_bad_clicks_that_one_list_releases_share_the_bytes_of_many_checkpoints(restarts):
    world, most = World(), 20_000
    for _ in range(300):
        world.click(9, key=b"k" * 400)
    world.click(2)
    assert world.join.room_for([], most) == 0
    world.show()
    written, sizes, ledger = [], [], world.join.ledger
    assert ledger.dead_clicks < 40
    while len(written) < 300:
        found = world.join.checkpoint(T0, most_bytes=most)
        world.known |= {rules.hash: rules.rules for rules in found.rules}
        sizes.append(sum(len(encode(letter)) for letter in found.dead_letters))
        written += [letter.offset for letter in found.dead_letters]
        assert found.commit.ledger.dead_clicks == len(written)
        assert found.commit.ledger.balanced
        if len(written) < 300:
            assert world.join.room_for([LogRecord(9, T0, b"s", b"")], most) == 0, "nothing is fed meanwhile"
        if restarts:
            world = restarted(world, found.commit)
    assert written == list(range(300))
    assert max(sizes) < most + 1_000
    assert world.join.room_for([LogRecord(9, T0, b"s", b"")], most) == 1
    assert [rewards for _, rewards, _ in world.rows(at=90)] == [[0, 1, 0, 0, 0, 0]]
    assert world.join.ledger.balanced


def test_a_repeat_costs_the_same_however_many_lists_have_been():
    def once(lists: int) -> float:
        world = World()
        records = [LogRecord(n, T0, b"s", encode(shown(f"{n}"))) for n in range(lists)]
        world.join.add_impressions(records)
        world.join.idle(impressions_ms=T0 + 200_000, clicks_ms=T0 + 200_000)
        world.checkpoint(at=300)
        again = [LogRecord(lists + n, T0 + 200_000, b"s", encode(shown("r", 200_000))) for n in range(500)]
        started = time.thread_time()
        for record in again:
            world.join.add_impressions([record])
        assert world.join.ledger.duplicates == 499
        return time.thread_time() - started

    def cost(lists: int) -> float:
        return min(once(lists) for _ in range(3))

    cost(10)
    assert cost(20_000) < 2 * cost(10) + 0.02


def test_memory_is_given_back_after_a_peak(monkeypatch):
    monkeypatch.setattr(join_columns, "_STEP", 64)
    monkeypatch.setattr(join_columns, "_FEW", 256)
    world = World()
    for number in range(40):
        names = [shown(f"{number}-{n}", at=number * 1_000) for n in range(50)]
        first = world.offsets["impressions"]
        records = [LogRecord(first + n, T0 + number * 1_000, b"s", encode(one)) for n, one in enumerate(names)]
        world.join.add_impressions(records)
        world.offsets["impressions"] += 50
    [columns] = [one for one in world.join._lists._columns if len(one)]
    peak = len(columns.shown_at)
    world.click(2, at=39, name="39-7")
    world.join.idle(impressions_ms=T0 + 154_500, clicks_ms=T0 + 154_500)  # lists of the last five seconds stay
    first = world.checkpoint(at=100)
    assert (peak, len(columns), len(columns.shown_at)) == (2_048, 250, 250)
    assert sum(len(batch.sizes) for batch in first.samples) == 40 * 50
    world.click(3, at=155, name="39-7")  # the codes of those that stay have changed with their slots
    [batch] = world.checkpoint(at=156).samples
    assert batch.impression_ids == ["39-7", "39-7"]
    assert batch.rewards_array.reshape(2, 6)[:, 1:3].tolist() == [[1.0, 0.0], [1.0, 1.0]]
    world.join.idle(impressions_ms=T0 + 300_000, clicks_ms=T0 + 300_000)
    world.checkpoint(at=300)
    assert len(world.join) == 0
    assert world.join.ledger.balanced


def test_limits_grow_with_the_largest_bucket():
    buckets = {"main": BUCKET, "wide": replace(BUCKET, name="wide", dim=100, positions=40)}
    assert Acceptance(buckets, future_ms=0).most_bytes == 40 * (8 + 400) + SPARE_BYTES
