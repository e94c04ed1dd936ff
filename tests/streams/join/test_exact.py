"""The heart of the join: any way of reading two logs leaves the same net as a slow look at the whole of them."""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_world import (
    ACCEPT,
    BUCKETS,
    FUTURE,
    HORIZON,
    Reader,
    impression,
    look_at_all,
    random_plan,
    traffic,
)

from schemas.records import Click, Impression
from streams.events import Acceptance
from streams.join import clock as log_clock

names = st.sampled_from(["i", "j", "k"])
deltas = st.integers(-2, 4)


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
            event = draw(st.sampled_from(poison_impressions(now)))
        else:
            bucket, size = draw(st.sampled_from([("a", 3), ("a", 2), ("b", 2)]))
            event = impression(
                draw(names), bucket, now + draw(st.integers(-HORIZON - 2, FUTURE + 1)), size, draw(st.integers(1, size))
            )
        log.append((offset, now, event))
        offset += draw(st.sampled_from([1, 1, 1, 2]))  # markers take offsets
    return log


@st.composite
def click_logs(draw: st.DrawFn) -> list[tuple]:
    log, offset, now = [], draw(st.integers(0, 2)), 20
    for _ in range(draw(st.integers(0, 14))):
        now += draw(deltas)
        position, reward = draw(st.integers(0, 4)), draw(st.sampled_from([1.0] * 5 + [0.0, 0.5, 3.0, math.nan, -1.0]))
        clicked_at = now + draw(st.integers(-HORIZON - FUTURE, FUTURE + 1))
        click = Click(draw(names), "s", position, clicked_at, reward)
        log.append((offset, now, draw(st.sampled_from([click] * 9 + [None]))))
        offset += draw(st.sampled_from([1, 1, 1, 2]))
    return log


def poison_impressions(now: int) -> list[Impression | None]:
    good = impression("i", "a", now, 3, 3)
    return [
        None,
        replace(good, bucket="c"),
        replace(good, bucket="b"),
        replace(good, rendered=0),
        replace(good, rendered=4),
        replace(good, contexts=np.array([0, np.nan, 0], "<f4").tobytes()),
        replace(good, contexts=np.array([0, 0, 1.5], "<f4").tobytes()),
    ]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("impressions"), st.integers(1, 6)),
        st.tuples(st.just("clicks"), st.integers(1, 6)),
        st.tuples(st.sampled_from(["checkpoint", "checkpoint_a_little"]), st.integers(0, 60)),
        st.tuples(st.just("idle"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.integers(0, HORIZON)),
    ),
    max_size=25,
)


def check(reader: Reader, impressions: list[tuple], clicks: list[tuple]) -> None:
    wanted = look_at_all(impressions, clicks)
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


def settings_that_change(rng: Random) -> tuple[int, Acceptance]:
    """Return a horizon and rules that a restart may bring."""
    a, b = BUCKETS["a"], BUCKETS["b"]
    rules = [
        *(BUCKETS, {"a": a}, {"b": b}, {"a": replace(a, positions=2), "b": b}),
        *({"a": replace(a, context_scale=0.5), "b": b}, {"a": a, "b": replace(b, reward_scale=0.75)}),
    ]
    return rng.choice([6, HORIZON, 12]), Acceptance(rng.choice(rules), future_ms=FUTURE)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("change", ["horizon", "rules"])
def test_changed_settings_repeat_and_lose_nothing(seed, change, monkeypatch):
    """Which events are in time then depends on when the settings changed, but nothing is counted twice or never."""
    rng = Random(seed)
    monkeypatch.setattr(log_clock, "EVERY", rng.choice([1, 5]))
    impressions, clicks = traffic(rng)
    reader = Reader(impressions, clicks)
    for step, number in random_plan(rng):
        if step == "restart":
            horizon, rules = settings_that_change(rng)
            reader.accept = rules if change == "rules" else ACCEPT
            reader.restart(number % 6, horizon if change == "horizon" else HORIZON)
        else:
            reader.follow([(step, number)])
    reader.finish()
    net = {key: count for key, count in reader.samples.items() if count}
    assert set(net.values()) <= {1}, "nothing is taken back that was not learned"
    assert len({offset for offset, _ in net}) == len(net), "no impression is learned twice"
    ledger = reader.join.ledger
    assert ledger.lists == len(net)
    assert (ledger.impressions, ledger.clicks) == (len(impressions), len(clicks))
    assert (ledger.open, ledger.waiting, ledger.balanced) == (0, 0, True)
    learned = {offset for offset, _ in net}
    dead = {offset for topic, offset in reader.dead if topic == "impressions"}
    dead_clicks = {offset for topic, offset in reader.dead if topic == "clicks"}
    assert max(reader.dead.values(), default=1) == 1, "nothing is refused twice"
    assert max(reader.late.values(), default=1) == 1
    assert not learned & dead
    assert not dead_clicks & reader.late.keys()
    assert len(learned) + len(dead) + ledger.duplicates == len(impressions), "nothing disappears"
    assert ledger.dead_impressions + ledger.too_late == len(dead)
    assert (ledger.late, ledger.dead_clicks) == (len(reader.late), len(dead_clicks))
    assert all(count >= 0 for count in ledger.counts().values())
    taken = [(click, offset) for offset, _, click in clicks if offset not in dead_clicks | reader.late.keys()]
    assert ledger.used + ledger.repeated == len(taken)
    rewarded = sum(row[3] > 0 for _, (*_, rows) in net for row in rows)
    assert rewarded <= ledger.used, "every click that was learned is called used"
    assert rewarded >= ledger.used - sum(click.reward == 0 for click, _ in taken)
