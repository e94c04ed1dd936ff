"""From a list's close to a ranker that has learned from it, at a thousand lists a second."""

import statistics
import time

import pytest
from jobs import Jobs, wait_until
from traffic import DIM, Event, K

from schemas.records import Impression
from streams.events.job import EventWriter
from streams.rank.job import Ranker
from streams.settings import Bucket

WAIT_S, RATE, SECONDS = 2.0, 1000, 12


@pytest.mark.quiet
def test_a_ranker_uses_a_closed_list_within_three_seconds_at_the_median(settings_for, tmp_path):
    settings = settings_for(
        buckets={"main": Bucket("main", "c2ucb", DIM, K)}, wait_s=WAIT_S, lateness_s=5.0, partitions=2
    )
    assert settings.publish_every_s == 1.0
    jobs = Jobs(settings, tmp_path)
    try:
        jobs.start("join", "--from", "earliest")
        jobs.start("learn")
        wait_until(lambda: has_model(settings), timeout_s=60, jobs=jobs)
        with Ranker.from_kafka(settings, bucket="main") as ranker, EventWriter(settings) as events:
            due, seen = [], []  # when each list closed, and when the ranker first had learned it
            started = time.time()
            while len(seen) < RATE * SECONDS:
                now = time.time()
                assert now < started + SECONDS + 30, f"{len(seen)} of {len(due)} learned\n{jobs.printed()}"
                wanted = min(int((now - started) * RATE), RATE * SECONDS)
                for number in range(len(due), wanted):
                    shown = impression(number, round(now * 1000))
                    events.send(shown.record, timestamp_ms=shown.timestamp_ms)
                    due.append(now + WAIT_S)
                seen += [now] * (ranker.snapshot.rounds - len(seen))
                time.sleep(0.01)
        late = [at - by for at, by in zip(seen, due, strict=True)]
        assert statistics.median(late) < 3.0, (statistics.median(late), max(late))
    finally:
        jobs.close()


def has_model(settings):
    try:
        Ranker.from_kafka(settings, bucket="main", refresh_s=None).close()
    except LookupError:
        return False
    return True


def impression(number, now_ms):
    contexts, items = bytes(4 * DIM * K), bytes(8 * K)
    return Event(now_ms, Impression(f"i{number}", f"s{number}", "main", "u", now_ms, items, contexts, K))
