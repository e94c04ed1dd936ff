"""Who won, out of sample batches: the same as a plain loop, corrections and all, and in words."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from compared_lists import START_MS, batch_of, by_hand, traffic
from compared_loop import contradictions, play
from msgspec import structs
from rich.console import Console

from schemas.codec import encode
from schemas.records import Click, DeadLetter
from streams.compare import (
    CompareChoice,
    CompareError,
    ListSums,
    LostClicks,
    checks,
    choice_of,
    compare,
    comparison_json,
    comparison_view,
    report_page,
    verdict,
)
from streams.events import EventReader
from streams.logs import LogRecord
from streams.settings import Bucket, Settings
from streams.split import Split

EQUAL = CompareChoice(control="old", shares={"old": 1.0, "new": 1.0})


def compared(batches, choice=EQUAL, lost=()):
    sums, losses = ListSums(), LostClicks(reader=EventReader())
    losses.add_late([LogRecord(0, 0, None, encode(click)) for click in lost])
    for batch in batches:
        sums.add(batch)
        losses.add_lists(batch)
    return compare(sums, losses, choice)


def two(old, new, *, lists=(20_000, 20_000)):
    """Return traffic of two buckets by their chances of a click."""
    return [
        traffic(name, lists=many, chance=chance, seed=1)
        for name, many, chance in zip(("old", "new"), lists, (old, new), strict=True)
    ]


def late(batch, share):
    """Return late clicks for a share of a batch's clicks."""
    lists = np.flatnonzero(batch.rewards_array.reshape(-1, 3).any(axis=1))
    times = batch.shown_at_ms_array
    return [
        Click(batch.impression_ids[number], "s", 3, int(times[number]) + 9_000_000)
        for number in lists[: round(share * len(lists))].tolist()
    ]


def corrected(batch, numbers):
    """Return the correction of some lists: as they were with −1, with a click at the top with +1."""
    numbers = np.asarray(numbers)
    users, minutes = batch.user_hashes_array[numbers], (batch.shown_at_ms_array[numbers] - START_MS) // 60_000
    was = batch.rewards_array.reshape(-1, 3)[numbers]
    now = was.copy()
    now[:, 0] = 1
    back = batch_of(batch.bucket, users, minutes, was, signs=-np.ones(len(numbers)), first=1000)
    return [back, batch_of(batch.bucket, users, minutes, now, first=1000)]


def test_corrections_in_any_order_come_to_what_a_plain_loop_finds():
    batches = [traffic(name, lists=400, chance=0.2, seed=1, users=90) for name in ("old", "new")]
    batches += corrected(batches[0], [3, 50, 51, 399]) + corrected(batches[1], [0, 7])
    expected = by_hand(batches)
    results = []
    for seed in range(3):
        random.Random(seed).shuffle(batches)
        comparison = compared(batches)
        results.append(json.loads(comparison_json(comparison)))
        for result in comparison.buckets:
            assert (result.lists, result.users, result.rates["sum"], result.rates["set"]) == pytest.approx(
                expected[result.bucket]
            )
            assert sum(clicks for _, clicks in result.by_position) == result.clicks
            assert {rows for rows, _ in result.by_position} == {result.lists}
    assert results[0] == results[1] == results[2]


def test_a_bucket_that_is_better_is_named_with_bounds_and_a_time():
    comparison = compared(
        [traffic("old", lists=20_000, chance=0.2, seed=1), traffic("new", lists=20_000, chance=0.24, seed=1)]
    )
    best, control = comparison.buckets
    assert (best.bucket, control.lifts) == ("new", None)
    lift = best.lifts["sum"]
    assert 0 < lift.low < 0.2 < lift.high < 0.3
    assert START_MS < lift.decided_since_ms <= comparison.to_ms
    assert verdict(best, comparison).startswith("new is ahead of old by ")
    assert "; decided since Tuesday 2023-11-1" in verdict(best, comparison)
    assert comparison.believed
    assert comparison.stops == []
    times = best.curve["time_ms"]
    assert all(a < b for a, b in pairwise(times))
    early = next(k for k, low in enumerate(best.curve["low"]) if low > 0)
    assert abs(times[early] - lift.decided_since_ms) <= 60_000


def test_alike_buckets_are_undecided_with_a_time_that_a_decision_may_take():
    comparison = compared([traffic(name, lists=4_000, chance=0.2, seed=4) for name in ("old", "new")])
    [new] = [result for result in comparison.buckets if result.lifts]
    text = verdict(new, comparison)
    assert "new against old: undecided; " in text
    assert "more" in text or "no end can be foretold" in text


def test_a_bucket_that_is_much_worse_is_stopped():
    comparison = compared(
        [traffic("old", lists=8_000, chance=0.24, seed=1), traffic("new", lists=8_000, chance=0.2, seed=1)]
    )
    assert comparison.stops == ["new"]
    assert any("GUARDRAIL: new" in text and alarm for alarm, text in checks(comparison))
    assert compared(two(0.24, 0.2), replace(EQUAL, guardrail=0.3)).stops == []


def test_a_split_that_leaks_is_an_alarm_and_no_lift_is_believed():
    comparison = compared(
        [traffic("old", lists=20_000, chance=0.2, seed=1), traffic("new", lists=18_000, chance=0.3, seed=1)]
    )
    assert comparison.sample_ratio["alarm"]
    assert not comparison.believed
    assert "not to be believed" in verdict(comparison.buckets[0], comparison)
    assert "new 47.37% of 50.00%" in checks(comparison)[0][1]


def test_shares_are_those_of_the_split_and_unknown_ones_are_not_tested():
    batches = [traffic("old", lists=9_000, chance=0.2, seed=1), traffic("new", lists=1_000, chance=0.2, seed=1)]
    assert not compared(batches, replace(EQUAL, shares={"old": 0.9, "new": 0.1})).sample_ratio["alarm"]
    assert compared(batches).sample_ratio["alarm"]
    unknown = compared(batches, CompareChoice(control="old"))
    assert (unknown.sample_ratio["tested"], unknown.believed) == (False, True)


SETTINGS = Settings(buckets={name: Bucket(name, weight=weight) for name, weight in (("old", 3.0), ("new", 1.0))})


def test_settings_tell_the_control_and_the_shares_of_their_own_split_only():
    sums = ListSums()
    for name in ("new", "old"):
        sums.add(traffic(name, lists=50, chance=0.2, seed=1, split=Split.of(SETTINGS).version))
    choice = choice_of(SETTINGS, CompareChoice(), sums)
    assert (choice.control, dict(choice.shares)) == ("old", {"old": 3.0, "new": 1.0})
    assert choice_of(SETTINGS, CompareChoice(control="new"), sums).control == "new"
    assert choice_of(SETTINGS, CompareChoice(shares={"old": 1.0}), sums).shares == {"old": 1.0}
    sums.add(batch_of("old", [1], [900], [[1, 0, 0]], split="another"))
    later = choice_of(SETTINGS, CompareChoice(), sums)
    assert (later.control, later.shares) == ("old", {})
    assert choice_of(Settings(), CompareChoice(), sums).control is None


def test_users_in_two_buckets_are_counted():
    old = traffic("old", lists=500, chance=0.2, seed=1)
    new = replace(old, bucket="new")
    assert compared([old, new]).sample_ratio["users_in_two_buckets"] == 500


def test_a_bucket_that_loses_clicks_is_an_alarm_that_names_it():
    old, new = (traffic(name, lists=20_000, chance=0.2, seed=1) for name in ("old", "new"))
    comparison = compared([old, new], lost=[*late(old, 0.002), *late(new, 0.04)])
    assert list(comparison.join_rate["buckets"]) == ["new"]
    assert not comparison.believed
    assert any("JOIN RATE: new loses" in text for _, text in checks(comparison))
    fair = compared([old, new], lost=[*late(old, 0.04), *late(new, 0.04)])
    assert fair.believed
    assert fair.join_rate["lost"]["new"] == pytest.approx(0.03, abs=0.01)


def test_clicks_in_dead_letters_are_lost_ones_and_those_of_unknown_lists_nobodys():
    batch = traffic("old", lists=50, chance=0.3, seed=1)
    click = Click(batch.impression_ids[0], "s", 1, START_MS)
    letters = [
        DeadLetter("p.clicks", 0, 1, 0, None, encode(click), "position 9 is beyond the list"),
        DeadLetter("p.clicks", 0, 2, 0, None, b"nothing", "cannot be read"),
        DeadLetter("p.impressions", 0, 3, 0, None, encode(click), "not an impression"),
    ]
    losses, sums = LostClicks(reader=EventReader()), ListSums()
    losses.add_lists(batch)
    sums.add(batch)
    losses.add_letters([LogRecord(k, 0, None, encode(letter)) for k, letter in enumerate(letters)], 0)
    losses.add_late([LogRecord(0, 0, None, encode(structs.replace(click, impression_id="unheard of")))])
    [old] = compare(sums, losses, CompareChoice()).buckets
    assert (old.lost_clicks, losses.clicks) == (1, 2)
    [again] = compare(sums, losses, CompareChoice()).buckets
    assert again.lost_clicks == 1, "a second look counts none of them twice"


def test_lost_clicks_find_lists_of_days_of_partitions_that_are_read_one_after_the_other(monkeypatch):
    monkeypatch.setattr("streams.compare.losses.COMPACT_AT", 500)
    days = [
        batch_of(name, np.arange(1, 501) + shift, np.full(500, 1440 * day), np.ones((500, 3)), first=500 * day)
        for name, shift in (("old", 0), ("new", 10**6))
        for day in range(6)
    ]
    losses, sums = LostClicks(reader=EventReader()), ListSums()
    lost = [click for batch in days for click in late(batch, 0.1)]
    losses.add_late([LogRecord(0, 0, None, encode(click)) for click in lost])
    for batch in days:
        sums.add(batch)
        losses.add_lists(batch)
    comparison = compare(sums, losses, EQUAL)
    assert {result.bucket: result.lost_clicks for result in comparison.buckets} == {"old": 300, "new": 300}
    assert not comparison.join_rate["alarm"]


def test_the_newest_split_is_compared_unless_another_is_asked_for():
    before = [traffic(name, lists=300, chance=0.2, seed=1, split="a") for name in ("old", "new")]
    now = [
        batch_of(name, [1 + k, 2 + k], [500, 500], np.eye(3)[:2], split="b") for k, name in ((10, "old"), (20, "new"))
    ]
    comparison = compared(before + now)
    assert (comparison.split, comparison.buckets[0].lists) == ("b", 2)
    assert "only lists under the split 'b'" in comparison.notes[0]
    assert compared(before + now, replace(EQUAL, split="a")).buckets[0].lists == 300


def test_lists_without_users_count_each_for_itself_and_it_is_said():
    batches = [replace(traffic(name, lists=300, chance=0.2, seed=1), user_hashes=b"") for name in ("old", "new")]
    comparison = compared(batches)
    assert [result.users for result in comparison.buckets] == [300, 300]
    assert not comparison.sample_ratio["tested"]
    assert any("tell no user" in note for note in comparison.notes)


@pytest.mark.parametrize(
    "batches, choice, words",
    [
        ([], EQUAL, "no lists in the samples yet"),
        ([traffic("new", lists=9, chance=0.2, seed=1)], EQUAL, "no lists of the control 'old'; there are new"),
        ([traffic("old", lists=9, chance=0.2, seed=1)], replace(EQUAL, split="z"), "no lists under the split 'z'"),
        ([traffic("old", lists=9, chance=0.2, seed=1)], CompareChoice(buckets=("x",)), "no lists of the buckets x"),
    ],
)
def test_what_cannot_be_compared_is_said(batches, choice, words):
    with pytest.raises(CompareError, match=words):
        compared(batches, choice)


def test_the_terminal_and_the_page_show_every_bucket_and_alarm():
    comparison = compared(
        [traffic("old", lists=20_000, chance=0.2, seed=1), traffic("new", lists=18_000, chance=0.3, seed=1)]
    )
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(comparison_view(comparison, positions=True))
    text, page = console.export_text(), report_page(comparison)
    assert max(map(len, text.splitlines())) <= 80
    for shown in (text, page):
        assert "SAMPLE RATIO" in shown
        assert "18,000" in shown
    assert page.count("<polyline") == 4
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which nobody asks for


def test_with_too_many_users_a_hash_sample_of_them_is_compared_and_said():
    batches = [traffic(name, lists=4_000, chance=0.2, seed=1, users=3_000) for name in ("old", "new")]
    sums, whole = ListSums(most_rows=3_000), ListSums()
    losses = LostClicks(sums.sample, reader=EventReader())
    for batch in batches:
        for each in (sums, whole):
            each.add(batch)
        losses.add_lists(batch)
    losses.add_late([LogRecord(0, 0, None, encode(click)) for batch in batches for click in late(batch, 0.5)])
    comparison, full = compare(sums, losses, EQUAL), compare(whole, LostClicks(reader=EventReader()), EQUAL)
    assert sum(len(arm.rows.user) for arm in sums.arms.values()) <= 3_000
    assert "1 of 4 users is taken, by a hash, to keep memory small" in comparison.notes
    by_name = {result.bucket: result for result in full.buckets}
    for result in comparison.buckets:
        assert result.users == pytest.approx(by_name[result.bucket].users / 4, rel=0.2)
        assert result.rates["sum"] == pytest.approx(by_name[result.bucket].rates["sum"], rel=0.2)
        assert 0 < result.lost_clicks / result.clicks < 1
    sums.add(corrected(batches[0], [1, 2])[0])
    assert compare(sums, losses, EQUAL).notes == comparison.notes


def test_in_a_loop_with_known_truth_the_learner_is_named_ahead_of_the_lot():
    comparison, truth = play(seed=1)
    best = comparison.buckets[0]
    assert truth["ubm-linucb"] > 1.3 * truth["lot"]
    assert verdict(best, comparison).startswith("ubm-linucb is ahead of lot by ")
    assert contradictions(comparison, truth) == []
