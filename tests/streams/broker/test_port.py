"""Both clients behind the port, on real Kafka: what the jobs rest on."""

import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest
from jobs import wait_until
from kafka import KafkaConsumer, TopicPartition
from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaError, UnstableOffsetCommitError
from kafka.structs import OffsetAndMetadata

from streams.broker import GroupOffset, admin, open_broker, producer, transactional
from streams.broker.clients import consumer
from streams.broker.kafka_consumer import SESSION_MS
from streams.broker.workarounds import hand_out_parked
from streams.settings import Topics

CLIENTS = pytest.mark.parametrize("client", ["kafka-python", "confluent"])


@CLIENTS
@pytest.mark.parametrize("busy_s", [0.0, 0.3])
def test_a_member_is_given_its_partitions_however_seldom_it_polls(settings_for, busy_s, client):
    settings = settings_for(partitions=2, kafka_client=client)
    topics = Topics.of(settings).events
    for number in range(3):
        consumer = open_broker(settings).group_consumer(f"group-{number}", topics)
        seen = []

        def polled(consumer=consumer, seen=seen):
            consumer.poll(1)
            time.sleep(busy_s)
            seen.append(consumer.moved())
            return len(consumer.assignment()) == 4

        wait_until(polled, timeout_s=60, every_s=0)
        assert consumer.member() is not None
        assert any(seen)
        consumer.close()


def test_an_assignment_that_comes_between_two_polls_is_taken(settings_for, monkeypatch):
    monkeypatch.setattr("streams.broker.kafka_consumer.JOINING_MS", 1)
    settings = settings_for(partitions=2, kafka_client="kafka-python")
    consumer = open_broker(settings).group_consumer("group", Topics.of(settings).events)
    wait_until(lambda: consumer.poll(1) == {} and len(consumer.assignment()) == 4, timeout_s=60, every_s=0.3)
    assert consumer.member().generation_id == 1
    consumer.close()


@CLIENTS
def test_partitions_that_are_added_are_seen(settings_for, monkeypatch, client):
    for module in ("kafka_consumer", "confluent_broker"):
        monkeypatch.setattr(f"streams.broker.{module}.METADATA_MS", 500)
    settings = settings_for(partitions=1, kafka_client=client)
    topics = Topics.of(settings).events
    consumer = open_broker(settings).group_consumer("group", topics)
    wait_until(lambda: consumer.poll(1) == {} and len(consumer.assignment()) == 2, timeout_s=60, every_s=0.3)
    with admin(settings) as client:
        client.create_partitions(dict.fromkeys(topics, 3))
    wait_until(lambda: consumer.poll(1) == {} and len(consumer.assignment()) == 6, timeout_s=60, every_s=0.3)
    consumer.close()


def test_records_that_are_there_are_handed_out_at_once_when_logs_are_paused_in_turns(settings_for):
    settings = settings_for(partitions=1, kafka_client="kafka-python")
    topics = Topics.of(settings).events
    with closing(producer(settings, linger_ms=50, batch_size=1 << 19)) as writer:
        for topic in topics:
            for number in range(20_000):
                writer.send(topic, b"%d" % number)
    places = [TopicPartition(topic, 0) for topic in topics]
    reader = consumer(settings)
    reader.assign(places)
    reader.seek_to_beginning(*places)
    offsets = {place: [] for place in places}
    for turn in range(6):
        wanted, other = places[turn % 2], places[1 - turn % 2]
        reader.pause(other)
        reader.resume(wanted)
        if turn < 2:
            found = reader.poll(30_000)
        else:  # what was fetched, without a question to the broker
            hand_out_parked(reader)
            found, _ = reader._fetcher.fetched_records()
        assert list(found) == [wanted], f"turn {turn}"
        offsets[wanted] += [record.offset for record in found[wanted]]
    assert list(offsets.values()) == [[*range(12_000)]] * 2
    reader.close()


def test_bounds_of_partitions_that_nobody_is_known_to_lead_are_asked_for_again(settings_for):
    settings = settings_for(partitions=1)
    topic = Topics.of(settings).impressions
    consumer = open_broker(settings).consumer()
    assert consumer.bounds([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): (0, 0)}
    with admin(settings) as client:
        client.create_partitions({topic: 3})
    both = [TopicPartition(topic, number) for number in (0, 2)]

    def known():
        try:
            return consumer.bounds(both) == dict.fromkeys(both, (0, 0))
        except KafkaError:  # which jobs survive
            return False

    wait_until(known, timeout_s=60)
    consumer.close()


@CLIENTS
def test_commits_of_another_client_are_read_to_their_end_and_no_further(settings_for, client):
    settings = settings_for(partitions=8, kafka_client=client)
    topics, group = Topics.of(settings).events, f"{settings.topic_prefix}mixed"
    places = [TopicPartition(topic, number) for topic in topics for number in range(8)]
    wanted = {place: GroupOffset(at, "é" * (25 * at)) for at, place in enumerate(places)}
    with closing(KafkaConsumer(**settings.kafka_options(), group_id=group, enable_auto_commit=False)) as other:
        other.assign(places)
        other.commit({place: OffsetAndMetadata(*entry, -1) for place, entry in wanted.items()})
    member = open_broker(settings).group_consumer("mixed", topics)
    assert member.committed(places) == wanted
    member.close()


@CLIENTS
def test_offsets_that_a_transaction_holds_back_are_told_as_that_with_the_way_out(settings_for, monkeypatch, client):
    monkeypatch.setattr("streams.broker.kafka_consumer.COMMITTED_MS", 1_000)
    settings = settings_for(partitions=1, kafka_client=client)
    places = [TopicPartition(topic, 0) for topic in Topics.of(settings).events]
    consumer = open_broker(settings).group_consumer("group", Topics.of(settings).events)
    holder = transactional(settings, "holder", transaction_timeout_ms=600_000)
    holder.init_transactions()
    holder.begin_transaction()
    holder.send_offsets_to_transaction({places[0]: OffsetAndMetadata(7, "", -1)}, f"{settings.topic_prefix}group")
    with pytest.raises(UnstableOffsetCommitError, match=r"held the group's offsets back for 1 s.* find-hanging"):
        consumer.committed(places)
    holder.commit_transaction()
    assert consumer.committed(places)[places[0]] == GroupOffset(7, "")
    consumer.close()
    holder.close(1)


def test_a_writer_asks_for_all_topics_of_the_jobs_at_once_so_that_no_first_record_waits(settings_for, monkeypatch):
    settings, asked, build = settings_for(kafka_client="kafka-python"), [], ClusterMetadata.metadata_request

    def noted(metadata):
        request = build(metadata)
        asked.append({topic.name for topic in request.topics or ()})
        return request

    monkeypatch.setattr(ClusterMetadata, "metadata_request", noted)
    topics = Topics.of(settings)
    writer = open_broker(settings).writer("writer", patience_ms=10_000)
    writer.begin()
    for topic in (topics.dead_letters, topics.late_clicks, topics.samples):
        writer.send(topic, key=b"key", value=b"value")
    writer.commit()
    writer.abandon()
    assert {*topics.of_jobs} in asked
    assert all(names in (set(), {*topics.of_jobs}) for names in asked), "one by one, each would wait for 100 ms"


def test_a_static_member_that_restarts_keeps_its_partitions_and_nobody_else_moves(settings_for):
    settings = settings_for(partitions=2, kafka_client="confluent")
    topics = Topics.of(settings).events

    def member(name):
        return open_broker(replace(settings, group_instance_id=name)).group_consumer("static", topics)

    first, other = member("one"), member("two")

    def shared():
        for one in (first, other):
            one.poll(20)
        return len(first.assignment()) == len(other.assignment()) == 2

    wait_until(shared, timeout_s=60, every_s=0)
    kept = first.assignment()
    assert other.moved()
    first.close()
    again, began = member("one"), time.monotonic()
    wait_until(lambda: again.poll(20) == other.poll(20) == {} and len(again.assignment()) > 0, timeout_s=60, every_s=0)
    assert time.monotonic() - began < SESSION_MS / 1000, "it came back before its session had ended"
    assert again.assignment() == kept
    assert not other.moved()
    again.close()
    other.close()


class PollingMember:
    """Polls in a thread of its own: in one thread two members of kafka-python would wait for each other in a poll."""

    def __init__(self, settings, name):
        settings = replace(settings, group_instance_id=name)
        self.consumer = open_broker(settings).group_consumer("static", Topics.of(settings).events)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self):
        while not self._over.is_set():
            self.consumer.poll(20)

    def standing(self):
        """Return its generation and its partitions, once it has some."""
        member, partitions = self.consumer.member(), self.consumer.assignment()
        return (member.generation_id, partitions) if member is not None and partitions else None

    def close(self):
        self._over.set()
        self._thread.join(30)
        self.consumer.close()


def test_the_same_is_true_of_kafka_python(settings_for):
    settings = settings_for(partitions=2, kafka_client="kafka-python")
    first, other = PollingMember(settings, "one"), PollingMember(settings, "two")
    found = []

    def shared():
        found[:] = first.standing(), other.standing()
        return None not in found and found[0][0] == found[1][0] and len(found[0][1]) == len(found[1][1]) == 2

    wait_until(shared, timeout_s=60, every_s=0.02)
    kept, others = found
    first.close()
    again = PollingMember(settings, "one")
    wait_until(lambda: again.standing() == kept, timeout_s=60, every_s=0.02)
    time.sleep(4)  # more than a heartbeat, by which the other one would be told of a rebalance
    wait_until(lambda: (again.standing(), other.standing()) == (kept, others), timeout_s=60, every_s=0.02)
    again.close()
    other.close()
