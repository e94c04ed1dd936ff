"""A broker that goes and comes back under real workers, and what must be true after it."""

import time
from collections.abc import Sequence

from exactly_once import BUCKETS, LATENESS_S, WAIT_S, Learned, events
from jobs import Jobs, wait_until
from traffic import publish

from streams.settings import Topics

DOWN_S = 6.0
LINES_A_MINUTE = 50  # of one worker's log, while the broker is away too


def break_broker(new_broker, settings_for, folder, *, faults: Sequence[str], lists: int, **changes) -> None:
    """Stop or kill the broker so often, after some lists each time: no worker ends, the bits are the reference's."""
    broker = new_broker()
    usual = {"buckets": BUCKETS, "wait_s": WAIT_S, "lateness_s": LATENESS_S, "partitions": 2, "publish_every_s": 0.3}
    settings = settings_for(kafka=broker.bootstrap, **usual | changes)
    topics = Topics.of(settings)
    impressions, clicks = events(lists, seed=5)
    result = Learned(settings, impressions, clicks)
    jobs = Jobs(settings, folder)
    began = time.monotonic()
    try:
        for command in (("join", "--from", "earliest"), ("learn",)):
            jobs.start(*command)
        parts = len(faults) + 1
        for part, fault in enumerate([*faults, ""]):
            before = result.lists()
            for topic, log in ((topics.impressions, impressions), (topics.clicks, clicks)):
                publish(settings.kafka, topic, log[len(log) * part // parts : len(log) * (part + 1) // parts])
            wait_until(lambda before=before: result.lists() > before, timeout_s=60, jobs=jobs)
            if fault:
                getattr(broker, fault)()
                time.sleep(DOWN_S)
                broker.start()
            jobs.check()
        wait_until(result.complete, timeout_s=120, jobs=jobs)
        minutes = (time.monotonic() - began) / 60
        for log in folder.glob("*.log"):
            assert len(log.read_text().splitlines()) < 20 + LINES_A_MINUTE * minutes, log.read_text()[-3000:]
    finally:
        jobs.close()
        result.close()
