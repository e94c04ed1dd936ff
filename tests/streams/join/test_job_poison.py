"""Poison of every kind on real topics: each one a dead letter that says where and why, and the stream goes on."""

import time
from dataclasses import replace

import numpy as np
from jobs import wait_until
from joined import BUCKETS, Net, Reader, commits, events, joining, lists_wanted, load
from kafka import KafkaProducer

from schemas.codec import decode, encode
from schemas.records import Click, DeadLetter, Impression, Progress
from streams.settings import Topics

K, DIM = 12, 10


def good(now_ms, size=K, dim=DIM, **changes):
    contexts = np.full((size, dim), 0.25, "<f4")
    plain = Impression("p", "s", "a", "u", now_ms, np.arange(size, dtype="<i8").tobytes(), contexts.tobytes(), size)
    return replace(plain, **changes)


def with_number(number):
    contexts = np.full((K, DIM), 0.25, "<f4")
    contexts[3, 7] = number
    return contexts.tobytes()


def bad_impressions(now_ms):
    """Return reason -> bytes."""
    sound = encode(good(now_ms))
    return {
        "no Avro header": b"\x93\x17 not avro at all",
        "unknown schema fingerprint": b"\xc3\x01" + bytes(8) + sound[10:],
        "not a Impression": sound[:-40],
        "expected Impression, got Progress": encode(Progress("t", 0, 1, 2)),
        "context nan of position 4, feature 8": encode(good(now_ms, contexts=with_number(np.nan))),
        "context inf of position 4": encode(good(now_ms, contexts=with_number(np.inf))),
        "context -1.5 of position 4, feature 8 is not within ±1": encode(good(now_ms, contexts=with_number(-1.5))),
        "contexts have 9 numbers an item; bucket 'a' wants 10": encode(good(now_ms, dim=9)),
        "unknown bucket 'nobody'": encode(good(now_ms, bucket="nobody")),
        "a list of 13 items is longer than the 12": encode(good(now_ms, size=13)),
        "13 positions rendered of a list of 12": encode(good(now_ms, rendered=13)),
        "shown 60 s after its own record": encode(good(now_ms + 60_000)),
        "too late: its horizon had passed": encode(good(now_ms - 3_600_000)),
        "has other content than at offset": encode(good(now_ms, impression_id="twice", rendered=3)),
    }


def bad_clicks(now_ms):
    plain = Click("twice", "s", 1, now_ms)
    return {
        "no Avro header": b"",
        "position 0; positions start at 1": encode(replace(plain, position=0)),
        "position 13 is beyond the list of 12": encode(replace(plain, position=13)),
        "reward nan is not a finite number": encode(replace(plain, reward=float("nan"))),
        "reward -1 is not a finite number": encode(replace(plain, reward=-1.0)),
        "reward 1.5 is above 1": encode(replace(plain, reward=1.5)),
        "clicked 3600 s after its own record": encode(replace(plain, clicked_at_ms=now_ms + 3_600_000)),
    }


def test_every_kind_of_poison_becomes_a_dead_letter(settings_for):
    settings = settings_for(buckets=BUCKETS, wait_s=10.0, lateness_s=10.0, future_s=30.0, partitions=2)
    topics = Topics.of(settings)
    impressions, clicks = events(300, seed=9)
    now_ms = max(event.timestamp_ms for event in impressions + clicks) + 2_000
    load(settings, impressions, clicks)
    producer = KafkaProducer(**settings.kafka_client())
    twice = good(now_ms, impression_id="twice")
    producer.send(topics.impressions, encode(twice), key=b"s", partition=1, timestamp_ms=now_ms).get(10)
    sent = {}
    for topic, poison in ((topics.impressions, bad_impressions(now_ms)), (topics.clicks, bad_clicks(now_ms))):
        for reason, value in poison.items():
            at = producer.send(topic, value, key=b"s", partition=1, timestamp_ms=now_ms).get(10)
            sent[topic, at.partition, at.offset] = reason, value
    at = producer.send(topics.clicks, None, key=b"s", partition=1, timestamp_ms=now_ms).get(10)
    sent[topics.clicks, at.partition, at.offset] = "a tombstone", None
    producer.close()

    net, reader = Net(settings), Reader(settings, topics.dead_letters)
    wanted = lists_wanted(impressions, clicks) | lists_wanted([replace(impressions[0], record=twice)], [])
    started = time.monotonic()
    with joining(settings):
        wait_until(lambda: net.now() == wanted and len(reader.read()) == len(sent), timeout_s=60)
    letters = [decode(record.value, DeadLetter) for record in reader.records]
    net.close()
    reader.close()
    for letter in letters:
        reason, value = sent.pop((letter.topic, letter.partition, letter.offset))
        assert reason in letter.reason
        assert (letter.value, letter.key, letter.timestamp_ms) == (value, b"s", now_ms)
    assert sent == {}
    ledgers = [commit.ledger for commit in commits(settings)]
    assert all(ledger.balanced for ledger in ledgers)
    assert sum(ledger.too_late for ledger in ledgers) == 1
    assert sum(ledger.dead_impressions for ledger in ledgers) == len(bad_impressions(now_ms)) - 1
    assert sum(ledger.dead_clicks for ledger in ledgers) == len(bad_clicks(now_ms)) + 1
    assert time.monotonic() - started < 60
