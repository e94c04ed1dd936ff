"""Poison of every kind on real topics: each one a dead letter that says where and why, and the stream goes on."""

import time
from dataclasses import replace

from jobs import wait_until
from joined import BUCKETS, Net, Reader, commits, events, joining, lists_wanted, load
from kafka import KafkaProducer
from poison import bad_clicks, bad_impressions, good

from schemas.codec import decode, encode
from schemas.records import DeadLetter
from streams.settings import Topics


def test_every_kind_of_poison_becomes_a_dead_letter(settings_for):
    settings = settings_for(buckets=BUCKETS, wait_s=10.0, lateness_s=10.0, future_s=30.0, partitions=2)
    topics = Topics.of(settings)
    impressions, clicks = events(300, seed=9)
    now_ms = max(event.timestamp_ms for event in impressions + clicks) + 2_000
    load(settings, impressions, clicks)
    producer = KafkaProducer(**settings.kafka_options())
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
