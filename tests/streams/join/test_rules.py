"""What becomes of events when the rules of a join change: nothing but what comes after is judged by the new ones."""

from dataclasses import replace

import numpy as np
import pytest
from join_events import BUCKET, FUTURE, LATENESS, T0, WAIT
from msgspec import structs

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance, EventReader
from streams.join import BadCommit, Checkpoint, Commit, JoinRules, SessionJoin
from streams.join.commit import MAX_METADATA_BYTES
from streams.join.rules import MOST_ERAS
from streams.logs import LogRecord
from streams.settings import LogPair

OTHER = replace(BUCKET, name="other")
Logs = dict[str, list[LogRecord]]


def logs_of(shown: list[Impression], clicks: list[Click]) -> Logs:
    both = {"impressions": shown, "clicks": clicks}
    return {
        name: [LogRecord(n, T0 + n, b"s", encode(event)) for n, event in enumerate(events)]
        for name, events in both.items()
    }


def impression(name: str, at: int = 0, bucket: str = "main", **changes) -> Impression:
    items, contexts = np.arange(6, dtype="<i8").tobytes(), np.zeros(12, "<f4").tobytes()
    return structs.replace(Impression(name, "s", bucket, "u", T0 + at, items, contexts, 6), **changes)


def resumed(found: Checkpoint, logs: Logs, buckets, *, known=None, future_ms=FUTURE) -> SessionJoin:
    """Return a join with other settings that has read again what it needs."""
    commit, _ = Commit.decode(*found.commit.encode())
    rules = {one.hash: one.rules for one in found.rules} | (known or {})
    accept = Acceptance(buckets, future_ms=future_ms)
    join = SessionJoin(accept, wait_ms=WAIT, lateness_ms=LATENESS, resume=commit, known=rules, reader=EventReader())
    for name, part in (("impressions", commit.impressions), ("clicks", commit.clicks)):
        again = [record for record in logs[name] if part.restart.offset <= record.offset < part.processed]
        getattr(join, f"add_{name}")(again, part.processed)
    assert not join.rebuilding
    return join


def first_checkpoint(logs: Logs, buckets, at_s: float) -> Checkpoint:
    join = SessionJoin(Acceptance(buckets, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS, reader=EventReader())
    join.add_impressions(logs["impressions"])
    join.add_clicks(logs["clicks"])
    return join.checkpoint(T0 + round(1000 * at_s))


@pytest.mark.parametrize("closed", [True, False])
def test_a_list_stays_correctable_by_the_rules_it_was_accepted_under(closed):
    logs = logs_of([impression("six")], [Click("six", "s", 2, T0)])
    found = first_checkpoint(logs, {"main": BUCKET}, 61 if closed else 1)
    changed = {"main": replace(BUCKET, positions=5, context_scale=2.0, reward_scale=1.0)}
    join = resumed(found, logs, changed)
    assert join.ledger == found.commit.ledger
    join.add_clicks([LogRecord(1, T0 + 70_000, b"s", encode(Click("six", "s", 6, T0 + 70_000, 2.0)))])
    join.add_clicks([LogRecord(2, T0 + 70_000, b"s", encode(Click("six", "s", 5, T0 + 70_000, 2.5)))])
    join.add_impressions([LogRecord(1, T0 + 70_000, b"s", encode(impression("new", at=70_000)))])
    checkpoint = join.checkpoint(T0 + 71_000)
    [batch] = checkpoint.samples
    assert batch.signs_array.tolist() == ([-1, 1] if closed else [1])
    assert batch.rewards_array[-6:].tolist() == [0, 1, 0, 0, 0, 2.0]
    reasons = {(one.topic, one.offset): one.reason for one in checkpoint.dead_letters}
    assert reasons == {
        ("clicks", 2): "reward 2.5 is above 2, the reward_scale of its bucket; check the producer",
        ("impressions", 1): "a list of 6 items is longer than the 5 of bucket 'main'",
    }
    assert checkpoint.commit.ledger.balanced


def test_lists_of_a_removed_bucket_still_reach_samples_and_those_of_an_added_one_stay_refused():
    shown = [impression(f"i{n}", bucket="other" if n % 2 else "main") for n in range(20)]
    logs = logs_of(shown, [Click(f"i{n}", "s", 1, T0) for n in range(20)])
    both, one = {"main": BUCKET, "other": OTHER}, {"main": BUCKET}
    for old, new, counts in ((both, one, {"main": 10.0, "other": 10.0}), (one, both, {"main": 10.0})):
        found = first_checkpoint(logs, old, 1)
        join = resumed(found, logs, new)
        assert join.ledger == found.commit.ledger
        join.idle(impressions_ms=T0 + 10**6, clicks_ms=T0 + 10**6)
        checkpoint = join.checkpoint(T0 + 10**6)
        assert {batch.bucket: float(batch.rewards_array.sum()) for batch in checkpoint.samples} == counts
        assert checkpoint.dead_letters == []
        assert len(checkpoint.late_clicks) == 20 - 10 * len(counts)
        assert checkpoint.commit.ledger.balanced


def test_a_samples_record_holds_lists_of_one_set_of_limits():
    logs = logs_of([impression("old")], [])
    found = first_checkpoint(logs, {"main": BUCKET}, 1)
    join = resumed(found, logs, {"main": replace(BUCKET, positions=8)})
    join.add_impressions([LogRecord(1, T0, b"s", encode(impression("new")))])
    batches = join.checkpoint(T0 + 61_000).samples
    assert [batch.impression_ids for batch in batches] == [["old"], ["new"]]
    same = resumed(found, logs, {"main": BUCKET}, future_ms=FUTURE + 1)
    same.add_impressions([LogRecord(1, T0, b"s", encode(impression("new")))])
    assert [batch.impression_ids for batch in same.checkpoint(T0 + 61_000).samples] == [["old", "new"]]


def test_the_tolerance_for_events_from_the_future_is_that_at_their_own_offset():
    logs = logs_of([impression("i", at=20_000)], [])
    found = first_checkpoint(logs, {"main": BUCKET}, 1)
    join = resumed(found, logs, {"main": BUCKET}, future_ms=0)
    join.add_impressions([LogRecord(1, T0, b"s", encode(impression("j", at=20_000)))])
    join.add_clicks([LogRecord(0, T0 + 20_000, b"s", encode(Click("i", "s", 1, T0 + 20_000)))])
    checkpoint = join.checkpoint(T0 + 100_000)
    assert [letter.offset for letter in checkpoint.dead_letters] == [1]
    assert [batch.impression_ids for batch in checkpoint.samples] == [["i"]]
    assert join.ledger.used == 1


def test_rules_are_handed_over_once_with_the_first_commit_of_their_era_and_named_by_their_hash():
    logs = logs_of([impression("i")], [])
    found = first_checkpoint(logs, {"main": BUCKET}, 1)
    [first] = found.rules
    assert JoinRules.read(first.rules).hash == first.hash
    assert (first.partition, first.impressions_from, first.clicks_from) == (0, 0, 0)
    changed = {"main": replace(BUCKET, positions=5)}
    join = resumed(found, logs, changed)
    checkpoint = join.checkpoint(T0 + 2_000)
    [second] = checkpoint.rules
    assert (second.impressions_from, second.clicks_from) == (1, 0)
    assert [era.rules for era in checkpoint.commit.impressions.eras] == [first.hash, second.hash]
    assert join.checkpoint(T0 + 2_000).rules == []
    again = resumed(checkpoint, logs, changed, known={first.hash: first.rules})
    assert again.checkpoint(T0 + 2_000).rules == []
    with pytest.raises(BadCommit, match=rf"the rules {first.hash}, which the parameters topic does not have"):
        resumed(checkpoint, logs, changed)
    with pytest.raises(BadCommit, match="they were changed"):
        resumed(checkpoint, logs, changed, known={first.hash: first.rules + b" "})


def test_a_commit_stays_small_with_a_hundred_buckets_and_names_a_bounded_number_of_eras():
    buckets = {f"bucket-{number}": replace(BUCKET, name=f"bucket-{number}") for number in range(100)}
    logs = logs_of([impression("i", bucket="bucket-7")], [])
    found = first_checkpoint(logs, buckets, 1)
    known, future_ms = {}, FUTURE
    while len(found.commit.impressions.eras) < MOST_ERAS:
        known |= {one.hash: one.rules for one in found.rules}
        future_ms += 1
        found = resumed(found, logs, buckets, known=known, future_ms=future_ms).checkpoint(T0 + 1_000)
    entries = found.commit.encode(LogPair("x" * 36, "y" * 36))
    assert max(len(metadata) for _, metadata in entries) < MAX_METADATA_BYTES
    with pytest.raises(BadCommit, match="go back to the last ones"):
        resumed(found, logs, buckets, known=known, future_ms=future_ms + 1)
    resumed(found, logs, buckets, known=known, future_ms=future_ms)


def test_eras_that_no_restart_needs_any_more_are_left_out():
    logs = logs_of([impression("i")], [])
    found = first_checkpoint(logs, {"main": BUCKET}, 1)
    join = resumed(found, logs, {"main": replace(BUCKET, positions=7)})
    assert len(join.checkpoint(T0 + 2_000).commit.impressions.eras) == 2
    join.idle(impressions_ms=T0 + 10**6, clicks_ms=T0 + 10**6)
    [era] = join.checkpoint(T0 + 10**6).commit.impressions.eras
    assert era.offset == 1
