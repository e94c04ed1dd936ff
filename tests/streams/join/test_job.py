"""The join job on real Kafka: exact in the net, also across restarts with another wait; and what it refuses."""

import time
import urllib.request
from dataclasses import replace

import pytest
from jobs import wait_until
from joined import BUCKETS, Net, Reader, commits, events, joining, lists_wanted, load
from msgspec import structs

from schemas.codec import decode
from schemas.records import Click
from streams.broker import TopicsError
from streams.join.job import run_join
from streams.settings import Topics
from streams.web import Health


@pytest.fixture
def settings(settings_for):
    return settings_for(buckets=BUCKETS, wait_s=10.0, lateness_s=10.0, future_s=5.0, partitions=2)


@pytest.fixture
def net(settings):
    net = Net(settings)
    yield net
    net.close()


def counted(health, fate):
    """Return how many impressions had this fate in all partitions, as /metrics tells it."""
    lines = urllib.request.urlopen(f"{health.url}/metrics").read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if "impressions_total{" in line and f'fate="{fate}"' in line)


def total(settings, what):
    return sum(getattr(commit.ledger, what) for commit in commits(settings))


def test_the_net_is_that_of_the_raw_events(settings, net):
    impressions, clicks = events(10_000, seed=1)
    load(settings, impressions, clicks)
    wanted = lists_wanted(impressions, clicks)
    with joining(settings) as job:
        wait_until(lambda: net.now() == wanted, timeout_s=60)
        with Health(live=job.watch.live, ready=job.watch.ready, metrics=job.watch.figures.render) as health:
            assert urllib.request.urlopen(f"{health.url}/readyz").read() == b"ok\n"
            assert urllib.request.urlopen(f"{health.url}/livez").read() == b"ok\n"
            wait_until(lambda: counted(health, "joined") == len(wanted), timeout_s=60)
    assert total(settings, "impressions") == len(impressions)
    assert total(settings, "clicks") == len(clicks)
    assert all(commit.ledger.balanced for commit in commits(settings))


def test_a_restart_with_another_wait_changes_nothing_in_the_net(settings, net):
    impressions, clicks = events(6_000, seed=2)
    halves = [len(impressions) // 2, len(clicks) // 2]
    wanted = lists_wanted(impressions, clicks)
    load(settings, impressions[: halves[0]], clicks[: halves[1]])
    with joining(settings):
        wait_until(lambda: len(net.now()) > 1000, timeout_s=60)
    load(settings, impressions[halves[0] :], clicks[halves[1] :])
    for wait_s in (2.0, 17.0):
        with joining(replace(settings, wait_s=wait_s, lateness_s=20.0 - wait_s), start=None):
            wait_until(lambda: net.now() == wanted, timeout_s=60)
    assert net.corrections > 0, "clicks of the second half found lists that were closed"


def test_silent_topics_still_close_their_lists_and_soon(settings_for):
    settings = settings_for(buckets=BUCKETS, wait_s=2.0, lateness_s=2.0, partitions=2, timestamps="LogAppendTime")
    net, (impressions, _) = Net(settings), events(50, seed=3)
    now_ms = int(time.time() * 1000)
    shown = [replace(e, record=structs.replace(e.record, shown_at_ms=now_ms), timestamp_ms=now_ms) for e in impressions]
    wanted = lists_wanted(shown, [])
    with joining(settings):
        load(settings, shown, [])
        wait_until(lambda: net.now() == wanted, timeout_s=60, every_s=0.05)
        seconds = time.time() - now_ms / 1000
    net.close()
    assert 2.0 < seconds < 10.0


def test_a_click_beyond_the_horizon_is_kept_apart(settings, net):
    impressions, clicks = events(500, seed=4)
    load(settings, impressions, clicks)
    shown = impressions[0].record
    # by then its list is long past; once the impressions' clock has passed too, no list can come for it
    late = Click(shown.impression_id, shown.session_id, 1, shown.shown_at_ms + 1000)
    load(settings, [], [replace(clicks[-1], record=late)])
    newer = events(50, seed=5, old_s=3_000)
    load(settings, *newer)
    reader = Reader(settings, Topics.of(settings).late_clicks)
    wanted = lists_wanted(impressions, clicks) | lists_wanted(*newer)
    with joining(settings):
        wait_until(lambda: net.now() == wanted and reader.read(), timeout_s=60)
    [found] = reader.records
    reader.close()
    assert decode(found.value) == late
    assert found.key == late.session_id.encode()
    assert total(settings, "late") == 1


def test_missing_topics_are_one_clear_line(settings):
    with pytest.raises(TopicsError, match=r"nowhere-impressions.*glimpse topics"):
        run_join(replace(settings, topic_prefix="nowhere-"), start="earliest")
