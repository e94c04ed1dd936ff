"""What the join does with single events: one behaviour a test, without a broker."""

from dataclasses import replace

import numpy as np
import pytest
from join_events import BUCKET, FUTURE, LATENESS, T0, WAIT, World

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import MAX_RECORD_BYTES, Acceptance, EventReader
from streams.join import BadCommit, Commit, SessionJoin
from streams.join.commit import MAX_METADATA_BYTES
from streams.logs import LogRecord
from streams.settings import LogPair

ARRIVALS = {
    "none": ([], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]),
    "one": ([(2, 1)], [0, 1, 0, 0, 0, 0], [0, 0, 2, 2, 2, 2]),
    "out of order": ([(5, 9), (2, 3)], [0, 1, 0, 0, 1, 0], [0, 0, 2, 2, 2, 5]),
    "twice": ([(3, 1), (3, 2)], [0, 0, 1, 0, 0, 0], [0, 0, 0, 3, 3, 3]),
}


@pytest.mark.parametrize("clicks, rewards, last", ARRIVALS.values(), ids=ARRIVALS)
def test_clicks_gather_until_the_wait_has_passed(clicks, rewards, last):
    world = World()
    world.show()
    for position, at in clicks:
        world.click(position, at)
    assert world.rows(at=60) == []
    assert world.rows(at=60.001) == [(1, rewards, last)]
    assert world.rows(at=100) == []


def test_the_largest_reward_of_a_position_counts():
    world = World()
    world.show()
    for reward in (0.5, 2.0, 1.0):
        world.click(1, reward=reward)
    [(_, rewards, _)] = world.rows(at=61)
    assert rewards[0] == 2.0
    assert (world.join.ledger.used, world.join.ledger.repeated) == (1, 2)


def test_a_click_may_come_before_its_impression():
    world = World()
    world.click(4)
    assert world.join.ledger.waiting == 1
    world.show()
    assert [rewards for _, rewards, _ in world.rows(at=61)] == [[0, 0, 0, 1, 0, 0]]
    assert world.join.ledger.waiting == 0


def test_a_click_after_the_close_corrects_exactly_in_one_record():
    world = World()
    world.show()
    world.click(1)
    world.rows(at=61)
    world.click(3, at=70)
    checkpoint = world.checkpoint(at=71)
    [batch] = checkpoint.samples
    assert batch.signs_array.tolist() == [-1, 1]
    assert batch.rewards_array.reshape(2, 6).tolist() == [[1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]]
    assert batch.last_clicks_array.reshape(2, 6).tolist() == [[0, 1, 1, 1, 1, 1], [0, 1, 1, 3, 3, 3]]
    assert batch.impression_ids == ["i", "i"]
    assert world.join.ledger.lists == 1


def test_a_repeat_after_the_close_corrects_nothing():
    world = World()
    world.show()
    world.click(1)
    world.rows(at=61)
    world.click(1, at=70)
    assert world.rows(at=71) == []


def test_only_rendered_positions_enter_unless_one_below_is_clicked():
    world = World()
    world.show("short", rendered=2)
    world.show("deeper", rendered=2)
    world.click(4, name="deeper")
    sizes = [len(rewards) for _, rewards, _ in world.rows(at=61)]
    assert sizes == [2, 4]


def test_a_click_past_the_horizon_is_late_once_no_list_can_come():
    world = World()
    world.show()
    world.click(2, at=1, arrives=120.001)  # by its own stamp, which counts for nobody else
    assert world.checkpoint(at=121).late_clicks == []
    world.time_passes(200, "impressions")
    [late] = world.checkpoint(at=201).late_clicks
    assert late.offset == 0
    assert world.join.ledger.late == 1


def test_an_impression_past_its_horizon_is_refused():
    world = World()
    world.time_passes(130, "impressions")
    world.show("too late", at=9.9, arrives=0)  # the log's clock counts, not only the record's own time stamp
    world.show("in time", at=10, arrives=0)
    world.show("by its own stamp", at=9, arrives=131)
    letters = {letter.offset: letter.reason for letter in world.checkpoint(at=0).dead_letters if letter.offset > 1}
    assert letters == {
        2: "too late: its horizon had passed 0.1 s before it came",
        4: "too late: its horizon had passed 2 s before it came",
    }
    assert (world.join.ledger.too_late, world.join.ledger.open) == (2, 1)


def test_the_lower_offset_wins_and_other_content_is_refused():
    world = World()
    world.show()
    world.show(arrives=1)
    world.show(arrives=2, rendered=3)
    [letter] = world.checkpoint(at=3).dead_letters
    assert letter.reason == "impression 'i' has other content than at offset 0; the lower offset wins"
    assert (world.join.ledger.duplicates, world.join.ledger.dead_impressions, world.join.ledger.open) == (1, 1, 1)


def test_silent_logs_let_go_of_their_lists():
    world = World()
    world.show()
    world.click(1)
    world.click(1, name="nobody")
    world.checkpoint(at=61)
    assert len(world.join) == 1
    world.join.idle(impressions_ms=T0 + 121_000, clicks_ms=T0 + 121_000)
    world.checkpoint(at=200)
    assert len(world.join) == 0
    world.join.idle(impressions_ms=T0 + 151_001)
    checkpoint = world.checkpoint(at=200)
    assert [late.offset for late in checkpoint.late_clicks] == [1]
    assert (checkpoint.commit.impressions.restart.offset, checkpoint.commit.clicks.restart.offset) == (1, 2)
    assert checkpoint.commit.ledger.balanced


def test_records_stay_under_half_a_megabyte():
    world = World(buckets={"main": replace(BUCKET, dim=100, positions=40)})
    contexts = np.zeros((40, 100), "<f4").tobytes()
    for number in range(150):
        items = bytes(40 * 8)
        world.show(f"i{number}", items=items, contexts=contexts, rendered=40)
    first = world.checkpoint(at=61).samples
    taps = [Click(f"i{number}", "s", 1, T0 + 62_000) for number in range(150)]
    world.join.add_clicks([LogRecord(n, T0 + 62_000, b"s", encode(tap)) for n, tap in enumerate(taps)])
    second = world.checkpoint(at=63).samples
    for batches, lists in ((first, 150), (second, 300)):
        assert max(len(encode(batch)) for batch in batches) <= MAX_RECORD_BYTES
        assert sum(len(batch.sizes) for batch in batches) == lists
        assert len(batches) == -(-lists // 30), "30 lists of 16.8 KB fit"
    assert all(batch.signs_array.sum() == 0 for batch in second), "old and new stand in the same record"


def test_a_rebuild_takes_only_what_was_processed():
    world = World()
    world.show()
    resumed = World(resume=world.checkpoint(at=1).commit)
    assert resumed.join.rebuilding
    with pytest.raises(ValueError, match="must reread"):
        resumed.checkpoint(at=61)
    resumed.offsets["impressions"] = 1
    with pytest.raises(ValueError, match="rebuilding ends at offset 1, got 1"):
        resumed.show("beyond")


def test_commit_metadata_is_small_and_foreign_metadata_is_refused():
    world = World()
    for number in range(40):
        world.show(f"i{number}")
    entries = world.checkpoint(at=1).commit.encode(LogPair("a" * 36, "b" * 36))
    assert max(len(metadata) for _, metadata in entries) < MAX_METADATA_BYTES / 4
    with pytest.raises(BadCommit, match="not committed by a join"):
        Commit.decode((3, ""), (4, "{}"))
    with pytest.raises(BadCommit, match="version 9"):
        Commit.decode((3, '{"v":9}'), (4, '{"v":1}'))


def test_a_bucket_whose_correction_fits_no_record_is_refused():
    with pytest.raises(ValueError, match="lower positions or dim"):
        Acceptance({"main": replace(BUCKET, positions=50, dim=2000)}, future_ms=0)
    with pytest.raises(ValueError, match="at least one bucket"):
        SessionJoin(Acceptance({}, future_ms=0), wait_ms=WAIT, lateness_ms=LATENESS, reader=EventReader())


def test_an_id_that_could_fill_a_record_and_an_item_that_means_none_are_refused_alone():
    world = World()
    world.show("i" * 64)
    world.show("ß" * 200)
    world.show("a", items=np.array([128, 0, 128, 2**62, 1, -(2**63) + 1], "<i8").tobytes())
    world.show("b", items=np.array([5, 6, 7, 8, -(2**63), 9], "<i8").tobytes())
    checkpoint = world.checkpoint(WAIT / 1000 + 1)
    reasons = {letter.offset: letter.reason for letter in checkpoint.dead_letters}
    assert reasons == {
        1: "an impression id of 400 bytes; at most 256",
        3: "item -9223372036854775808, which stands for no item; take another id",
    }
    assert [name for batch in checkpoint.samples for name in batch.impression_ids] == ["i" * 64, "a"]


def test_lists_that_close_all_at_once_are_written_in_pieces():
    world = World()
    for number in range(50):
        world.show(f"i{number:02}", at=number / 10)
    names, checkpoints = [], 0
    resume = None
    while len(names) < 50:
        checkpoint = world.join.checkpoint(T0 + 10 * WAIT, most_bytes=10 * 1024)
        names += [name for batch in checkpoint.samples for name in batch.impression_ids]
        assert sum(len(encode(batch)) for batch in checkpoint.samples) < 20 * 1024
        checkpoints, resume = checkpoints + 1, checkpoint.commit
    assert names == [f"i{number:02}" for number in range(50)]
    assert checkpoints == 3
    assert (resume.ledger.lists, resume.ledger.open) == (50, 0)


def test_a_list_that_was_too_late_stays_so_after_the_horizon_has_grown():
    accept = Acceptance({"main": BUCKET}, future_ms=FUTURE)
    known = {}

    def join(resume, lateness_s):
        return SessionJoin(
            accept, wait_ms=WAIT, lateness_ms=lateness_s * 1000, resume=resume, known=known, reader=EventReader()
        )

    def checkpoint(of, at):
        found = of.checkpoint(at)
        known.update({rules.hash: rules.rules for rules in found.rules})
        return found

    def at(offset, second, event):
        return LogRecord(offset, T0 + second * 1000, b"s", encode(event))

    def shown(name, second):
        items, contexts = np.arange(6, dtype="<i8").tobytes(), bytes(4 * 12)
        return Impression(name, "s", "main", "u", T0 + second * 1000, items, contexts, 6)

    first, second = at(0, 0, shown("x", 0)), at(1, 500, shown("y", 300))
    one = join(None, 60)
    one.add_impressions([first])
    one.idle(impressions_ms=T0 + 500_000)  # so nothing shown before 380 s is in time any more
    commit = checkpoint(one, T0).commit
    two = join(commit, 1000)
    two.add_impressions([record for record in [first] if record.offset >= commit.impressions.restart.offset], 1)
    two.add_impressions([second])
    later = checkpoint(two, T0 + 500_000)
    assert [letter.offset for letter in later.dead_letters] == [1]
    three = join(later.commit, 1000)
    for record in (first, second):
        if record.offset >= later.commit.impressions.restart.offset:
            three.add_impressions([record])
    assert not three.rebuilding
    three.add_clicks([at(0, 501, Click("y", "s", 1, T0 + 310_000))])
    assert three.checkpoint(T0 + 600_000).samples == []
