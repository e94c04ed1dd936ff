"""From a list's close to a ranker that has learned from it, at a steady rate of lists."""

import time
from pathlib import Path

from confluent_kafka import Producer
from jobs import Jobs, wait_until
from traffic import DIM, K

from schemas.codec import encode
from schemas.records import Impression
from streams.rank.job import Ranker
from streams.settings import Settings, Topics


def seconds_to_rankers(settings: Settings, folder: Path, *, rate: int, seconds: int) -> tuple[list[float], float]:
    """Return, for each list, how long after its close a ranker on Kafka first had learned it; of bucket ``main``.

    And how many lists a second were sent, which are fewer than ``rate`` where the machine is busy.
    """
    jobs = Jobs(settings, folder)
    try:
        jobs.start("join", "--from", "earliest")
        jobs.start("learn")
        wait_until(lambda: has_model(settings), timeout_s=60, jobs=jobs)
        # By the quicker client: at high rates it is the workers that are measured, not who writes the events.
        # It says nothing when the broker has gone in the end: there is no way to close it.
        events = Producer({"bootstrap.servers": settings.kafka, "linger.ms": 5, "log_level": 0})
        topic = Topics.of(settings).impressions
        with Ranker.from_kafka(settings, bucket="main", refresh_s=0.1) as ranker:
            due, seen = [], []  # when each list closed, and when the ranker first had learned it
            started = time.time()
            while len(seen) < rate * seconds:
                now = time.time()
                assert now < started + seconds + 30, f"{len(seen)} of {len(due)} learned\n{jobs.printed()}"
                for number in range(len(due), min(int((now - started) * rate), rate * seconds)):
                    at_ms = round(now * 1000)
                    events.produce(topic, encode(impression(number, at_ms)), f"s{number}", timestamp=at_ms)
                    due.append(now + settings.wait_s)
                events.poll(0)
                seen += [now] * (ranker.snapshot.rounds - len(seen))
                time.sleep(0.01)
        return [at - by for at, by in zip(seen, due, strict=True)], len(due) / (due[-1] - due[0])
    finally:
        jobs.close()


def has_model(settings: Settings) -> bool:
    try:
        Ranker.from_kafka(settings, bucket="main", refresh_s=None).close()
    except LookupError:
        return False
    return True


def impression(number: int, now_ms: int) -> Impression:
    contexts, items = bytes(4 * DIM * K), bytes(8 * K)
    return Impression(f"i{number}", f"s{number}", "main", "u", now_ms, items, contexts, K)
