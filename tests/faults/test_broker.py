"""A broker that stops for a while, and one that is killed: no worker ends, the same bits."""

import time

import pytest
from exactly_once import BUCKETS, LATENESS_S, WAIT_S, Learned, events
from jobs import Jobs, wait_until
from traffic import publish

from streams.settings import Topics


@pytest.mark.timeout(400)
def test_a_broker_that_stops_and_is_killed_ends_no_worker_and_changes_no_bit(new_broker, settings_for, tmp_path):
    broker = new_broker()
    settings = settings_for(
        kafka=broker.bootstrap, buckets=BUCKETS, wait_s=WAIT_S, lateness_s=LATENESS_S, partitions=2, publish_every_s=0.3
    )
    topics = Topics.of(settings)
    impressions, clicks = events(24_000, seed=5)
    result = Learned(settings, impressions, clicks)
    jobs = Jobs(settings, tmp_path)
    try:
        for command in (("join", "--from", "earliest"), ("learn",)):
            jobs.start(*command)
        for part in range(3):
            before = result.lists()
            for topic, log in ((topics.impressions, impressions), (topics.clicks, clicks)):
                publish(settings.kafka, topic, log[len(log) * part // 3 : len(log) * (part + 1) // 3])
            wait_until(lambda before=before: result.lists() > before, timeout_s=60, jobs=jobs)
            if part == 0:
                broker.stop()
                time.sleep(6)
                broker.start()
            elif part == 1:
                broker.kill()
                broker.start()
            jobs.check()
        wait_until(result.complete, timeout_s=120, jobs=jobs)
    finally:
        jobs.close()
        result.close()
