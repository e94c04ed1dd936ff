"""The loop of a click, measured on records with known times."""

import numpy as np
import pytest

from schemas.records import SampleBatch
from streams.freshness import Freshness


def samples(bucket: str, clicked: dict[str, bool], signs=None) -> SampleBatch:
    """Lists of two rows each, the second clicked or not."""
    lists = len(clicked)
    rewards = np.zeros((lists, 2))
    rewards[:, 1] = list(clicked.values())
    zeros = np.zeros(lists, np.int64)
    return SampleBatch(
        bucket,
        1,
        np.zeros(2 * lists, np.int64).tobytes(),
        np.tile(np.array([1, 2], np.uint8), lists).tobytes(),
        bytes(2 * lists),
        rewards.tobytes(),
        np.zeros(2 * lists, np.float32).tobytes(),
        list(clicked),
        bytes([2] * lists),
        np.array(signs or [1] * lists, np.int8).tobytes(),
        zeros.tobytes(),
        zeros.astype(np.int32).tobytes(),
        zeros.tobytes(),
        zeros.astype(np.int32).tobytes(),
        zeros.tobytes(),
    )


def loop(delay_ms: int, steps=("clicks", "samples", "snapshots", "lists")) -> Freshness:
    """100 clicks, one a second: joined after 10 s, learned 1 s later, published after a delay, served after 2 s."""
    freshness = Freshness(tolerance_s=5)
    freshness.add_snapshot("b", (1, 0), learned_at_ms=0, published_at_ms=0)
    for step in steps:
        for n in range(100):
            at_ms = 1_000_000 + 1000 * n
            if step == "clicks":
                freshness.add_click(f"i{n}", at_ms)
            elif step == "samples":
                freshness.add_samples(samples("b", {f"i{n}": True, f"no{n}": False}), offset=n, at_ms=at_ms + 10_000)
            elif step == "snapshots":
                learned_ms = at_ms + 11_000
                freshness.add_snapshot("b", (1, n + 1), learned_at_ms=learned_ms, published_at_ms=learned_ms + delay_ms)
            else:
                freshness.add_impression("b", (1, n + 1), at_ms + 13_000 + delay_ms)
    return freshness


@pytest.mark.parametrize("delay_s", [0, 30])
def test_a_delayed_publication_shows_as_that_delay(delay_s):
    found = loop(1000 * delay_s).buckets(2_000_000)["b"]
    assert (found.join.p50, found.learn.p50, found.serve.p50) == (10, 1, 2)
    assert found.publish.p50 == found.publish.max == delay_s
    assert found.total.p95 == 13 + delay_s
    assert (found.clicks, found.waiting) == (100, 0)


def test_the_order_in_which_topics_are_read_does_not_matter():
    usual, other = loop(0), loop(0, steps=("lists", "snapshots", "clicks", "samples"))
    assert usual.buckets(2_000_000) == other.buckets(2_000_000)


def test_a_click_is_served_by_the_first_snapshot_that_holds_it_or_a_newer_one():
    freshness = Freshness()
    for offset, at_ms in [(0, 1000), (4, 2000), (9, 3000)]:
        freshness.add_snapshot("b", (1, offset), learned_at_ms=at_ms, published_at_ms=at_ms)
    freshness.add_click("i", 500)
    freshness.add_samples(samples("b", {"i": True}), offset=3, at_ms=1500)
    assert freshness.buckets(4000)["b"].waiting == 1
    assert freshness.buckets(4000)["b"].waiting_s == 3.5
    freshness.add_impression("b", (1, 0), 2500)  # of before
    freshness.add_impression("b", (1, 9), 3500)  # (1, 4) never served anybody
    found = freshness.buckets(4000)["b"]
    assert (found.clicks, found.waiting) == (1, 0)
    assert (found.learn.max, found.serve.max, found.total.max) == (0.5, 1.5, 3.0)


def test_what_compaction_has_removed_is_not_guessed():
    freshness = Freshness()
    freshness.add_snapshot("b", (1, 50), learned_at_ms=9000, published_at_ms=9000)
    freshness.add_click("i", 500)
    freshness.add_samples(samples("b", {"i": True}), offset=3, at_ms=1500)
    freshness.add_impression("b", (1, 50), 9500)
    found = freshness.buckets(10_000)["b"]
    assert (found.clicks, found.waiting, found.total) == (0, 0, None)


def test_a_new_epoch_that_relearns_does_not_hide_that_the_old_one_was_first():
    freshness = Freshness()
    for version, at_ms in [((1, 0), 0), ((1, 5), 2000), ((2, 0), 8000), ((2, 5), 9000)]:
        freshness.add_snapshot("b", version, learned_at_ms=at_ms, published_at_ms=at_ms)
    freshness.add_click("i", 500)
    freshness.add_samples(samples("b", {"i": True}), offset=3, at_ms=1500)
    freshness.add_impression("b", (1, 5), 2500)
    assert freshness.buckets(10_000)["b"].total.max == 2.0


def test_only_learned_clicks_count():
    freshness = Freshness()
    freshness.add_snapshot("b", (1, 0), learned_at_ms=0, published_at_ms=0)
    freshness.add_click("i", 500)
    batch = samples("b", {"i": True, "unclicked": False, "unknown": True}, signs=[-1, 1, 1])
    freshness.add_samples(batch, offset=0, at_ms=1500)
    assert freshness.buckets(2000)["b"].waiting == 0


def test_the_stale_share_leaves_rankers_the_tolerance():
    freshness = Freshness(tolerance_s=5)
    freshness.add_snapshot("b", (1, 1), learned_at_ms=0, published_at_ms=10_000)
    freshness.add_snapshot("b", (1, 2), learned_at_ms=0, published_at_ms=20_000)
    for version, at_ms in [((1, 1), 21_000), ((1, 1), 24_999), ((1, 1), 25_001), ((1, 2), 30_000), ((0, -1), 30_000)]:
        freshness.add_impression("b", version, at_ms)
    found = freshness.buckets(30_000)["b"]
    assert (found.lists, found.stale, found.unranked) == (4, 0.25, 1)


def test_memory_is_bounded():
    freshness = Freshness(most=10)
    for n in range(1000):
        freshness.add_click(f"i{n}", n)
        freshness.add_snapshot("b", (1, n), learned_at_ms=n, published_at_ms=n)
        freshness.add_impression("b", (1, n), n)
        freshness.add_samples(samples("b", {f"i{n}": True}), offset=n, at_ms=n)
    found = freshness.buckets(1000)["b"]
    assert found.clicks + found.waiting <= 10
    assert found.lists == 10
    assert len(freshness._clicks) <= 50
