"""The heart of the join: any way of reading two logs leaves the same net as a slow look at the whole of them."""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_reference import look_at_all
from join_world import BUCKETS, FAR, FUTURE, HORIZON, Reader, bad_impressions, impression, random_plan, session, traffic

from schemas.records import Click, Impression
from streams.join import clock as log_clock

names = st.sampled_from(["i", "j", "k"])
deltas = st.integers(-2, 4)
odd_stamps = st.sampled_from([None] * 20 + list(FAR))


@st.composite
def impression_logs(draw: st.DrawFn) -> list[tuple]:
    log, offset, now = [], draw(st.integers(0, 2)), 20
    for _ in range(draw(st.integers(0, 12))):
        now += draw(deltas)
        kind = draw(st.sampled_from(["plain"] * 9 + ["again", "again", "again", "poison", "poison"]))
        earlier = [event for _, _, event in log if event]
        event: Impression | None
        if kind == "again" and earlier:
            event = draw(st.sampled_from(earlier))
        elif kind == "poison":
            event = draw(st.sampled_from(bad_impressions("i", now)))
        else:
            bucket, size = draw(st.sampled_from([("a", 3), ("a", 2), ("b", 2)]))
            event = impression(
                draw(names), bucket, now + draw(st.integers(-HORIZON - 2, FUTURE + 1)), size, draw(st.integers(1, size))
            )
        log.append((offset, now if (odd := draw(odd_stamps)) is None else odd, event))
        offset += draw(st.sampled_from([1, 1, 1, 2]))  # markers take offsets
    return log


@st.composite
def click_logs(draw: st.DrawFn) -> list[tuple]:
    log, offset, now = [], draw(st.integers(0, 2)), 20
    for _ in range(draw(st.integers(0, 14))):
        now += draw(deltas)
        position, reward = draw(st.integers(0, 4)), draw(st.sampled_from([1.0] * 5 + [0.0, 0.5, 3.0, math.nan, -1.0]))
        clicked_at = now + draw(st.integers(-HORIZON - FUTURE, FUTURE + 1))
        name = draw(names)
        of = draw(st.sampled_from([session(name)] * 9 + ["another", "s" * 300]))
        click = Click(name, of, position, clicked_at, reward)
        stamp = now if (odd := draw(odd_stamps)) is None else odd
        log.append((offset, stamp, draw(st.sampled_from([click] * 9 + [None]))))
        offset += draw(st.sampled_from([1, 1, 1, 2]))
    return log


steps = st.lists(
    st.one_of(
        st.tuples(st.just("impressions"), st.integers(1, 6)),
        st.tuples(st.just("clicks"), st.integers(1, 6)),
        st.tuples(st.sampled_from(["checkpoint", "checkpoint_a_little"]), st.integers(0, 60)),
        st.tuples(st.sampled_from(["idle", "idle_too_far"]), st.integers(0, 15)),
        st.tuples(st.just("restart"), st.integers(0, HORIZON)),
    ),
    max_size=25,
)


def check(reader: Reader, impressions: list[tuple], clicks: list[tuple]) -> None:
    wanted = look_at_all(impressions, clicks, reader.eras, reader.silences)
    assert {key: n for key, n in reader.samples.items() if n} == dict.fromkeys(wanted.lists.items(), 1)
    assert reader.dead == Counter(wanted.dead)
    assert reader.late == Counter(wanted.late)
    ledger = reader.join.ledger
    assert (ledger.impressions, ledger.clicks) == (len(impressions), len(clicks))
    assert (ledger.lists, ledger.open, ledger.waiting) == (len(wanted.lists), 0, 0)
    for name in ("duplicates", "too_late", "used", "repeated"):
        assert getattr(ledger, name) == wanted.counts[name], name
    assert len(reader.join) == 0, "everything is forgotten in the end"


@settings(max_examples=300, deadline=None)
@given(impressions=impression_logs(), clicks=click_logs(), plan=steps, every=st.sampled_from([1, 1, 256]))
def test_any_reading_leaves_the_same_net(impressions, clicks, plan, every):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_clock, "EVERY", every)  # so that commits also point between few records
        reader = Reader(impressions, clicks)
        reader.follow(plan)
        reader.finish()
    check(reader, impressions, clicks)


@pytest.mark.parametrize("seed", range(100))
def test_a_long_reading_with_crashes_leaves_the_same_net(seed, monkeypatch):
    rng = Random(seed)
    monkeypatch.setattr(log_clock, "EVERY", rng.choice([1, 1, 5]))
    impressions, clicks = traffic(rng)
    reader = Reader(impressions, clicks)
    reader.follow(random_plan(rng))
    reader.finish()
    check(reader, impressions, clicks)


def other_settings(rng: Random) -> dict:
    """Return rules that a restart may bring: another horizon, tolerance, K, scales or buckets."""
    a, b = BUCKETS["a"], BUCKETS["b"]
    buckets = [
        BUCKETS,
        {"a": a},
        {"b": b},
        {"a": replace(a, positions=2), "b": b},
        {"a": replace(a, context_scale=0.5), "b": b},
        {"a": a, "b": replace(b, reward_scale=0.75)},
        {"a": replace(a, dim=2), "b": b},
    ]
    return {
        "horizon": rng.choice([6, HORIZON, HORIZON, 12]),
        "future": rng.choice([0, FUTURE, FUTURE, 6]),
        "buckets": rng.choice([BUCKETS, *buckets]),
    }


@pytest.mark.parametrize("seed", range(120))
def test_changed_settings_leave_the_net_of_rules_by_era(seed, monkeypatch):
    """Content rules are those at the list's offset, time rules those at the event's own, through every restart."""
    rng = Random(seed)
    monkeypatch.setattr(log_clock, "EVERY", rng.choice([1, 5]))
    impressions, clicks = traffic(rng)
    reader = Reader(impressions, clicks)
    for step, number in random_plan(rng):
        if step == "restart":
            reader.restart(number % 6, **other_settings(rng))
        else:
            reader.follow([(step, number)])
    reader.finish()
    check(reader, impressions, clicks)
