"""Events through real join and learn workers give, bit by bit, what a ten-line reference gives from the raw events."""

import time

from exactly_once import BUCKETS, LATENESS_S, WAIT_S, Learned, events
from jobs import Jobs, wait_until
from traffic import publish

from streams.settings import Topics


def test_a_hundred_thousand_lists_give_the_bits_of_the_reference(settings_for, tmp_path):
    """5% of the events twice, all out of order, clicks before their impression and after its close; two of each job."""
    settings = settings_for(buckets=BUCKETS, wait_s=WAIT_S, lateness_s=LATENESS_S, partitions=4, publish_every_s=0.5)
    jobs = Jobs(settings, tmp_path)
    impressions, clicks = events(100_000, seed=1)
    result = Learned(settings, impressions, clicks)
    topics = Topics.of(settings)
    try:
        for command in (("join", "--from", "earliest"), ("learn",)):
            jobs.start(*command)
            jobs.start(*command)
        publish(settings.kafka, topics.impressions, impressions)
        publish(settings.kafka, topics.clicks, clicks)
        wait_until(result.complete, timeout_s=120, jobs=jobs)
        time.sleep(2)
        assert result.complete(), result.differences()  # nothing comes twice afterwards
    finally:
        jobs.close()
        result.close()
