"""What becomes of events and counts when the rules of a join change."""

from dataclasses import replace

import numpy as np
from join_events import BUCKET, FUTURE, LATENESS, T0, WAIT, World

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance
from streams.join import Commit, SessionJoin
from streams.join import commit as offsets
from streams.join.commit import MAX_METADATA_BYTES
from streams.logs import LogRecord
from streams.settings import Bucket


def test_a_list_closed_under_other_rules_takes_no_correction():
    world = World()
    world.show("closed")
    world.checkpoint(at=61)
    world.show("open", at=50)
    commit = world.checkpoint(at=62).commit
    changed = World(resume=commit, buckets={"main": replace(BUCKET, context_scale=2.0)})
    changed.show("closed")
    changed.show("open", at=50)
    assert not changed.join.rebuilding
    changed.click(1, at=70, name="closed")
    changed.click(1, at=70, name="open")
    checkpoint = changed.checkpoint(at=111)
    assert [late.offset for late in checkpoint.late_clicks] == [0]
    [batch] = checkpoint.samples
    assert (batch.impression_ids, batch.signs_array.tolist(), batch.rewards_array[0]) == (["open"], [1], 1.0)
    assert checkpoint.commit.ledger.balanced


def test_an_open_list_that_new_rules_refuse_becomes_a_dead_letter():
    world = World()
    world.show("six")
    commit = world.checkpoint(at=1).commit
    changed = World(resume=commit, buckets={"main": replace(BUCKET, positions=5)})
    changed.show("six")
    checkpoint = changed.checkpoint(at=61)
    assert [letter.reason for letter in checkpoint.dead_letters] == [
        "a list of 6 items is longer than the 5 of bucket 'main'"
    ]
    assert (checkpoint.samples, checkpoint.commit.ledger.dead_impressions, checkpoint.commit.ledger.open) == ([], 1, 0)
    assert changed.join.rejudged == (-1, 0)


def play(join: SessionJoin, commit: Commit, logs: dict[str, list[LogRecord]]) -> None:
    """Give a join all that it has to read again."""
    for name, part in (("impressions", commit.impressions), ("clicks", commit.clicks)):
        getattr(join, f"add_{name}")([record for record in logs[name] if record.offset >= part.place.offset])


def change(old: dict[str, Bucket], new: dict[str, Bucket], show: str, cut_at: int = 1) -> tuple[SessionJoin, Commit]:
    """Twenty lists, every second one of bucket ``show``, with a click each; a restart with other buckets."""
    items, contexts = np.arange(6, dtype="<i8").tobytes(), np.zeros(12, "<f4").tobytes()
    shown = [
        Impression(f"i{n}", "s", show if n % 2 else "main", "u", T0 + n, items, contexts, 6, 1, 0) for n in range(20)
    ]
    clicks = [Click(f"i{n}", "s", 1, T0 + n) for n in range(20)]
    logs = {
        name: [LogRecord(n, T0 + n, b"s", encode(event)) for n, event in enumerate(events)]
        for name, events in (("impressions", shown), ("clicks", clicks))
    }
    join = SessionJoin(Acceptance(old, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS)
    play(join, Commit.beginning(""), logs)
    commit = join.checkpoint(T0 + 1000 * cut_at).commit
    restored, _ = Commit.decode(*commit.encode())
    join = SessionJoin(Acceptance(new, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS, resume=restored)
    play(join, commit, logs)
    assert not join.rebuilding
    return join, commit


OTHER = replace(BUCKET, name="other")


def test_a_bucket_that_is_added_changes_no_count():
    join, commit = change({"main": BUCKET}, {"main": BUCKET, "other": OTHER}, "other")
    assert (commit.ledger.open, commit.ledger.dead_impressions, commit.ledger.used, commit.ledger.waiting) == (
        *(10, 10),
        *(10, 10),
    )
    assert join.ledger == commit.ledger, "what was refused stays refused, and its clicks go on waiting"
    join.idle(impressions_ms=T0 + 10**6, clicks_ms=T0 + 10**6)
    checkpoint = join.checkpoint(T0 + 10**6)
    assert {batch.bucket: float(batch.rewards_array.sum()) for batch in checkpoint.samples} == {"main": 10.0}
    assert (len(checkpoint.late_clicks), checkpoint.commit.ledger.late, checkpoint.commit.ledger.used) == (10, 10, 10)
    assert checkpoint.dead_letters == []
    assert checkpoint.commit.ledger.balanced


def test_a_bucket_that_is_removed_takes_its_open_lists_along():
    join, commit = change({"main": BUCKET, "other": OTHER}, {"main": BUCKET}, "other")
    assert (commit.ledger.open, commit.ledger.used) == (20, 20)
    checkpoint = join.checkpoint(T0 + 2000)
    assert (len(checkpoint.dead_letters), len(checkpoint.late_clicks)) == (10, 10)
    ledger = checkpoint.commit.ledger
    assert (ledger.open, ledger.dead_impressions, ledger.used, ledger.late) == (10, 10, 10, 10)
    assert ledger.balanced


def test_a_bucket_that_is_removed_leaves_what_is_in_the_samples():
    join, commit = change({"main": BUCKET, "other": OTHER}, {"main": BUCKET}, "other", cut_at=61)
    assert (commit.ledger.lists, commit.ledger.used) == (20, 20)
    join.idle(impressions_ms=T0 + 10**6, clicks_ms=T0 + 10**6)
    checkpoint = join.checkpoint(T0 + 10**6)
    assert checkpoint.commit.ledger == commit.ledger
    assert (checkpoint.samples, checkpoint.dead_letters, checkpoint.late_clicks) == ([], [], [])


def test_a_commit_without_rules_still_balances_when_they_change(monkeypatch):
    monkeypatch.setattr(offsets, "MAX_RULES_BYTES", 0)  # as an older join has committed, or one with very many buckets
    for old, new in (({"main": BUCKET}, {"other": OTHER}), ({"other": OTHER}, {"main": BUCKET})):
        join, _ = change({"main": BUCKET} | old, {"main": BUCKET} | new, "other")
        ledger = join.checkpoint(T0 + 2000).commit.ledger
        assert ledger.balanced
        assert all(count >= 0 for count in ledger.counts().values())
        assert ledger.late == 0


def test_a_hundred_buckets_leave_room_in_a_commit():
    buckets = {f"bucket-{number}": replace(BUCKET, name=f"bucket-{number}") for number in range(100)}
    commit = World(buckets=buckets).checkpoint(at=1).commit
    decoded, _ = Commit.decode(*commit.encode(("x" * 22, "y" * 22)))
    assert decoded == commit
    assert decoded.accept
    assert len(commit.encode(("x" * 22, "y" * 22))[1][1]) < MAX_METADATA_BYTES / 2
