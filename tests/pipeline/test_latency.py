"""From a list's close to a ranker that has learned from it, at a thousand lists a second."""

import statistics

import pytest
from latency import seconds_to_rankers
from traffic import DIM, K

from streams.settings import Bucket


@pytest.mark.quiet
def test_a_ranker_uses_a_closed_list_within_three_seconds_at_the_median(settings_for, tmp_path):
    buckets = {"main": Bucket("main", "c2ucb", DIM, K)}
    settings = settings_for(buckets=buckets, wait_s=2.0, lateness_s=5.0, partitions=2)
    assert settings.publish_every_s == 1.0
    late, _ = seconds_to_rankers(settings, tmp_path, rate=1000, seconds=12)
    assert statistics.median(late) < 3.0, (statistics.median(late), max(late))
