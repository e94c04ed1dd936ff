"""The loop of a click, measured on records with known times."""

import numpy as np
import pytest

from schemas.records import SampleBatch
from streams.dashboard.freshness import Freshness


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
    bucket = loop(1000 * delay_s).buckets(2_000_000)["b"]
    assert (bucket.join.p50, bucket.learn.p50, bucket.serve.p50) == (10, 1, 2)
    assert bucket.publish.p50 == bucket.publish.max == delay_s
    assert bucket.total.p95 == 13 + delay_s
    assert (bucket.clicks, bucket.waiting) == (100, 0)


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
    bucket = freshness.buckets(4000)["b"]
    assert (bucket.clicks, bucket.waiting) == (1, 0)
    assert (bucket.learn.max, bucket.serve.max, bucket.total.max) == (0.5, 1.5, 3.0)


def test_what_compaction_has_removed_is_not_guessed():
    freshness = Freshness()
    freshness.add_snapshot("b", (1, 50), learned_at_ms=9000, published_at_ms=9000)
    freshness.add_click("i", 500)
    freshness.add_samples(samples("b", {"i": True}), offset=3, at_ms=1500)
    freshness.add_impression("b", (1, 50), 9500)
    bucket = freshness.buckets(10_000)["b"]
    assert (bucket.clicks, bucket.waiting, bucket.total) == (0, 0, None)


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
    bucket = freshness.buckets(30_000)["b"]
    assert (bucket.lists, bucket.stale, bucket.unranked) == (4, 0.25, 1)


def test_lists_without_versions_keep_nobody_waiting():
    freshness = Freshness()
    for offset in range(2):
        freshness.add_snapshot("b", (1, offset), learned_at_ms=offset, published_at_ms=offset)
    for offset in range(2):
        freshness.add_click(f"i{offset}", 0)
        freshness.add_samples(samples("b", {f"i{offset}": True}), offset=offset, at_ms=1)
    freshness.add_impression("b", (0, -1), 5000)
    bucket = freshness.buckets(30_000)["b"]
    assert (bucket.waiting, bucket.lists, bucket.unranked) == (1, 0, 1)  # the one that is not in any snapshot


def test_staleness_is_not_told_without_a_snapshot_before():
    freshness = Freshness(tolerance_s=5)
    freshness.add_snapshot("b", (1, 1), learned_at_ms=0, published_at_ms=10_000)
    freshness.add_impression("b", (1, 1), 12_000)
    assert freshness.buckets(13_000)["b"].stale is None


def test_memory_is_bounded_and_what_is_left_is_an_even_share():
    freshness = Freshness(most=100)
    for n in range(5000):
        freshness.add_click(f"i{n}", n)
        freshness.add_snapshot("b", (1, n), learned_at_ms=n, published_at_ms=n)
        freshness.add_impression("b", (1, n), n)
        freshness.add_samples(samples("b", {f"i{n}": True}), offset=n, at_ms=n)
    bucket = freshness.buckets(5000)["b"]
    assert 10 <= bucket.clicks + bucket.waiting <= 100
    assert bucket.lists == pytest.approx(5000, rel=0.3)
    assert bucket.share < 0.1
    assert len(freshness._clicks) <= 100
    [bucket] = freshness._buckets.values()
    assert max(len(rows.array()) for rows in (bucket.clicked, bucket.snapshots, bucket.shown)) <= 100
    assert len(bucket.first_shown.rows) <= 100


@pytest.mark.parametrize("rate", [5, 40])
def test_busy_buckets_are_followed_through_a_long_wait(rate):
    """Clicks joined ten minutes later, learned and published at once, served after a second."""
    freshness = Freshness(keep_s=1500, most=10_000)
    for second in range(0, 1500):
        at_ms = 1_000_000 + second * 1000
        for n in range(rate):
            freshness.add_click(f"i{second}-{n}", at_ms)
        freshness.add_snapshot("b", (1, second), learned_at_ms=at_ms, published_at_ms=at_ms)
        freshness.add_impression("b", (1, max(0, second - 1)), at_ms)
        ids = {f"i{second - 600}-{n}": True for n in range(rate)}
        freshness.add_samples(samples("b", ids), offset=second, at_ms=at_ms)
        freshness.forget(at_ms)
    bucket = freshness.buckets(2_500_000)["b"]
    assert bucket.clicks >= 800 * rate * bucket.share
    assert (bucket.share == 1) == (rate == 5)
    assert (bucket.join.p50, bucket.learn.p50, bucket.serve.p50) == (600, 1, 1)
    assert len(freshness._clicks) <= 10_000


def test_a_burst_of_clicks_is_forgotten_and_all_are_followed_again():
    freshness = Freshness(keep_s=60, most=100)
    for n in range(5000):
        freshness.add_click(f"i{n}", 1000)
    assert freshness.share < 0.1
    for second in range(100):
        freshness.add_click(f"later{second}", 1000 * second)
        freshness.forget(1000 * second)
    assert freshness.share == 1


LIES = {
    "an epoch that nobody has": ((600_000, 5), 3500),
    "the largest version there is": ((2**31 - 1, 2**63 - 1), 3500),
    "an offset beyond the newest": ((1, 10**9), 3500),
    "before it was published": ((1, 4), -3_000_000),
}


@pytest.mark.parametrize("version, shown_at_ms", LIES.values(), ids=LIES)
def test_lists_that_no_known_snapshot_can_have_ranked_are_not_believed(version, shown_at_ms):
    freshness = Freshness()
    for offset in range(5):
        freshness.add_snapshot("b", (1, offset), learned_at_ms=1000 * offset, published_at_ms=1000 * offset + 20_000)
    freshness.add_click("i", 0)
    freshness.add_samples(samples("b", {"i": True}), offset=2, at_ms=2500)
    freshness.add_impression("b", version, shown_at_ms)
    bucket = freshness.buckets(30_000)["b"]
    assert (bucket.clicks, bucket.waiting, bucket.lists, bucket.stale) == (0, 1, 0, None)
    freshness.add_impression("b", (1, 4), 25_000)
    bucket = freshness.buckets(30_000)["b"]
    assert (bucket.clicks, bucket.total.p50, bucket.lists) == (1, 25, 1)


def test_a_version_is_believed_once_its_snapshot_was_read():
    freshness = Freshness()
    freshness.add_snapshot("b", (20261116, 0), learned_at_ms=0, published_at_ms=0)
    freshness.add_click("i", 500)
    freshness.add_samples(samples("b", {"i": True}), offset=0, at_ms=1000)
    freshness.add_impression("b", (20261116, 1), 3000)
    assert freshness.buckets(4000)["b"].clicks == 0
    freshness.add_snapshot("b", (20261116, 1), learned_at_ms=2000, published_at_ms=2000)
    assert freshness.buckets(4000)["b"].serve.p50 == 1


def test_what_may_have_been_served_by_an_unread_list_is_not_told():
    freshness = Freshness()
    freshness.read_from(5000)
    freshness.add_gap(20_000, 30_000)
    for offset, published in [(0, 0), (1, 4000), (2, 6000), (3, 19_000), (4, 25_000), (5, 31_000)]:
        freshness.add_snapshot("b", (1, offset), learned_at_ms=published, published_at_ms=published)
        freshness.add_impression("b", (1, offset), published + 1500)
    for offset in range(5):  # each is held by the snapshot with the next offset
        freshness.add_click(f"i{offset}", 100)
        freshness.add_samples(samples("b", {f"i{offset}": True}), offset=offset, at_ms=200)
    bucket = freshness.buckets(40_000)["b"]
    assert (bucket.clicks, bucket.waiting) == (2, 0)  # those of 6 s and 31 s
    assert bucket.total.max == 32.4


def test_only_the_last_hour_is_told():
    freshness = loop(0)
    assert freshness.buckets(1_200_000 + 3_500_000)["b"].clicks > 0
    later = freshness.buckets(1_200_000 + 3_700_000)["b"]
    assert (later.clicks, later.waiting, later.lists, later.stale) == (0, 0, 0, None)
    assert freshness.since_ms(5_000_000) == 1_400_000


def test_buckets_that_nobody_knows_take_no_room():
    freshness = Freshness()
    for n in range(100):
        freshness.add_impression(f"user-{n}", (1, 3), 1000)
    freshness.add_impression("b", (1, 3), 1000)
    assert set(freshness.buckets(2000, known={"b"})) == {"b"}
    assert set(freshness._buckets) == {"b"}
