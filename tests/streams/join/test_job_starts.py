"""Where the join begins and goes on, on real Kafka: one decision for all, and a partition that is refused alone."""

import re
import time
from dataclasses import replace

import pytest
from jobs import wait_until
from joined import BUCKETS, Net, commits, events, joining, lists_wanted, load
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from streams.broker import admin, create_topics, transactional
from streams.join.job.starts import JoinRefused
from streams.settings import Topics


@pytest.fixture
def settings(settings_for):
    return settings_for(buckets=BUCKETS, wait_s=3.0, lateness_s=17.0, future_s=5.0, partitions=2)


@pytest.fixture
def net(settings):
    net = Net(settings)
    yield net
    net.close()


def recommit(settings, change):
    """Change the committed offsets of the group, which is not there just now."""
    topics, group = Topics.of(settings), f"{settings.topic_prefix}glimpse-join"
    consumer = KafkaConsumer(**settings.kafka_options(), group_id=group, enable_auto_commit=False)
    places = [TopicPartition(topic, p) for topic in (topics.impressions, topics.clicks) for p in range(2)]
    consumer.assign(places)
    found = {place: change(place, consumer.committed(place, metadata=True)) for place in places}
    consumer.commit({place: OffsetAndMetadata(*entry, -1) for place, entry in found.items() if entry})
    consumer.close()
    gone = [place for place, entry in found.items() if entry is None]
    if gone:
        with admin(settings) as client:
            client.delete_group_offsets(group, gone)


def test_without_a_word_where_a_join_that_never_began_does_not_guess(settings, net):
    with (
        pytest.raises(JoinRefused, match=r"never began.*--from earliest.*--from latest loses"),
        joining(settings, start=None) as job,
    ):
        wait_until(job.stopping.is_set, timeout_s=60)
    with pytest.raises(JoinRefused, match="wanted earliest, latest or a time"):
        joining(settings, start="yesterday").__enter__()
    with pytest.raises(JoinRefused, match="say with --from where"):
        joining(settings, start=None, anew=True).__enter__()


def test_from_acts_once_and_added_partitions_begin_at_their_beginning(settings, net):
    first = events(300, seed=1)
    load(settings, *first)
    with joining(settings, start="earliest"):
        wait_until(lambda: len(commits(settings)) == 2, timeout_s=60)
    second = events(300, seed=2, old_s=3_500)
    load(settings, *second)
    topics = Topics.of(settings)
    with joining(settings, start="latest"):  # as it may stand in a unit file: it goes on where it stopped
        wait_until(lambda: net.now() == lists_wanted(*first) | lists_wanted(*second), timeout_s=60)
        with admin(settings) as client:
            client.create_partitions({topics.impressions: 3, topics.clicks: 3})
        third = events(300, seed=3, old_s=3_400)
        load(settings, *third)
    # a worker that was not there when they were added finds them too
    with joining(settings, start=None):
        wait_until(lambda: len(commits(settings)) == 3 and len(net.now()) == 900, timeout_s=60)
    assert sum(commit.ledger.impressions for commit in commits(settings)) == sum(
        len(log) for log in (first[0], second[0], third[0])
    )


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_added_partitions_begin_under_a_worker_once_both_topics_have_them(settings, net, monkeypatch, caplog, client):
    for name in ("broker.kafka_consumer.METADATA_MS", "broker.confluent_broker.METADATA_MS"):
        monkeypatch.setattr(f"streams.{name}", 500)
    monkeypatch.setattr("streams.join.job.owner.REFUSED_S", 2.0)
    first, second = events(300, seed=1), events(300, seed=2, old_s=3_500)
    topics = Topics.of(settings)
    load(settings, *first)
    with joining(replace(settings, kafka_client=client)) as job, admin(settings) as operator:
        wait_until(lambda: net.now() == lists_wanted(*first), timeout_s=60)
        operator.create_partitions({topics.impressions: 3})
        wait_until(lambda: f"only {topics.impressions} has a partition 2" in caplog.text, timeout_s=60)
        assert sorted(job.watch.joined) == [0, 1]
        operator.create_partitions({topics.clicks: 3})
        load(settings, *second)
        wait_until(lambda: net.now() == lists_wanted(*first) | lists_wanted(*second), timeout_s=60)
    assert all(commit.ledger.balanced for commit in commits(settings))


REFUSALS = {
    "made anew": (lambda entry: (entry.offset, entry.metadata.replace('"topic":"', '"topic":"not-')), "other topic id"),
    "by another tool": (lambda entry: (entry.offset, "by hand"), "not committed by a join"),
    "one of two is gone": (lambda entry: None, "has no committed offset on"),
    "by rules that are gone": (
        lambda entry: (entry.offset, re.sub(r'("eras":\[\[\d+,")\w', r"\1-", entry.metadata)),
        "which the parameters topic does not have",
    ),
}


@pytest.mark.parametrize("change, why", REFUSALS.values(), ids=REFUSALS)
def test_a_commit_that_cannot_be_used_stops_its_partition_alone(settings, net, change, why):
    first = events(200, seed=6)
    load(settings, *first)
    with joining(settings):
        wait_until(lambda: net.now() == lists_wanted(*first), timeout_s=60)
    topics = Topics.of(settings)
    bad = TopicPartition(topics.clicks, 1)
    recommit(settings, lambda place, entry: change(entry) if place == bad else (entry.offset, entry.metadata))
    newer = events(200, seed=7, old_s=3_000)
    load(settings, *newer)
    with joining(settings, start="earliest") as job:
        wait_until(lambda: job.watch.refused and len(net.now()) > 240, timeout_s=60)
        assert why in job.watch.ready()
        assert "--anew" in job.watch.ready()
        time.sleep(4)  # longer than lists wait
        assert 240 < len(net.now()) < 360, "one partition goes on, the other does not"
        assert all(count == 1 for count in net.now().values()), "nothing is learned again"
    with joining(settings, start=str(int((time.time() - 3_010) * 1000)), anew=True):
        wait_until(lambda: net.now() == lists_wanted(*first) | lists_wanted(*newer), timeout_s=60)


def test_events_that_were_deleted_before_they_were_joined_stop_their_partition_alone(settings, net):
    load(settings, *events(200, seed=8))
    with joining(settings):
        wait_until(lambda: len(net.now()) == 200, timeout_s=60)
    newer = events(200, seed=9, old_s=3_000)
    load(settings, *newer)
    with admin(settings) as client:
        client.delete_records({TopicPartition(Topics.of(settings).impressions, 0): -1})
    with joining(settings) as job:
        wait_until(lambda: job.watch.refused and len(net.now()) > 240, timeout_s=60)
        assert "were deleted; keep the topic longer" in job.watch.ready()
        assert list(job.watch.refused) == [0]


def test_offsets_that_expired_begin_nowhere_by_themselves(settings, net):
    load(settings, *events(200, seed=10))
    with joining(settings):
        wait_until(lambda: len(net.now()) == 200, timeout_s=60)
    recommit(settings, lambda place, entry: None)
    with joining(settings) as job:
        why = "offsets expire a week after a group has gone"
        wait_until(lambda: len(job.watch.refused) == 2 and why in (job.watch.ready() or ""), timeout_s=60)
        assert "--anew" in job.watch.ready()
        time.sleep(2)
        assert all(count == 1 for count in net.now().values()), "nothing is learned again"


@pytest.mark.parametrize("running", [False, True], ids=["while nobody looked", "under a worker"])
def test_topics_made_anew_under_the_same_name_are_refused_until_somebody_says(settings, net, running):
    topics, first = Topics.of(settings), events(100, seed=11)
    load(settings, *first)

    def make_anew():
        with admin(settings) as client:
            client.delete_topics(list(topics.events))
            wait_until(lambda: not {*topics.events} & {*client.list_topics()}, timeout_s=60)
        create_topics(settings)

    with joining(settings, anew=True) as job:  # forgotten there: it was said of the topics of now
        wait_until(lambda: net.now() == lists_wanted(*first), timeout_s=60)
        if running:
            make_anew()
            load(settings, *events(300, seed=12, old_s=3_000))
            wait_until(lambda: len(job.watch.refused) == 2, timeout_s=60)
            time.sleep(2)
            assert "made anew" in job.watch.ready()
            assert net.now() == lists_wanted(*first), "other events at the same offsets are not these"
    if not running:
        make_anew()
        load(settings, *events(300, seed=12, old_s=3_000))
    with joining(settings) as job:
        wait_until(lambda: "made anew" in (job.watch.ready() or "") and "--anew" in job.watch.ready(), timeout_s=60)
        assert len(job.watch.refused) == 2
        assert net.now() == lists_wanted(*first)
    with joining(settings, anew=True):
        wait_until(lambda: len(net.now()) == 400, timeout_s=60)


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_static_member_goes_on_at_once_from_the_transaction_that_it_was_killed_in(settings, net, client):
    settings = replace(settings, group_instance_id="one", kafka_client=client)
    wanted = events(300, seed=8)
    load(settings, *wanted)
    with joining(settings):
        wait_until(lambda: net.now() == lists_wanted(*wanted), timeout_s=60)
    left = transactional(settings, "glimpse-join-one", transaction_timeout_ms=600_000)
    left.init_transactions()
    left.begin_transaction()
    place = TopicPartition(Topics.of(settings).clicks, 0)
    left.send_offsets_to_transaction({place: OffsetAndMetadata(0, "", -1)}, f"{settings.topic_prefix}glimpse-join")
    with joining(settings, start=None) as job:  # nobody is told a group's offsets while a transaction may change them
        wait_until(lambda: job.watch.ready() is None, timeout_s=60)
    left.close(1)


def take_over(settings, net, wanted):
    """Start a second join of the same name, and wait until the first has ended and the second goes on alone."""
    with joining(settings) as older:
        wait_until(lambda: net.now() == lists_wanted(*wanted), timeout_s=60)
        with joining(settings, start=None) as newer:
            wait_until(older.stopping.is_set, timeout_s=60)
            wait_until(lambda: newer.watch.ready() is None, timeout_s=60)


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_of_two_joins_with_one_name_the_older_ends_and_says_so(settings, net, client):
    settings = replace(settings, group_instance_id="one", kafka_client=client)
    wanted = events(300, seed=9)
    load(settings, *wanted)
    with pytest.raises(JoinRefused, match="another join is called 'one'"):
        take_over(settings, net, wanted)
