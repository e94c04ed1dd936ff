"""Lag on logs that are odd: empty, compacted, made again, with markers or an open transaction."""

import json
import time
from io import StringIO

import pytest
from by_hand import SHORT, commit, join_commit, lag_of, write
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from rich.console import Console

from schemas.codec import encode
from schemas.records import Progress
from streams.broker import admin, create_topics, stamps_of_any_time
from streams.join.commit import LogPosition
from streams.lag import Window
from streams.lag.facts import Unread
from streams.lag.job import LagReader, show_lag
from streams.lag.job.count import Counted, count
from streams.lag.job.logs import reader
from streams.lag.job.reader import LagError
from streams.lag.verdict import Verdict
from streams.settings import Topics


@pytest.mark.parametrize("k", [0, 700, 2999])
def test_time_lag_is_that_of_the_known_time_stamps(settings_for, reader_of, k):
    settings = settings_for(partitions=1)
    topic = Topics.of(settings).impressions
    begin_ms = 1_600_000_000_000
    write(settings, topic, [b"x"] * 3000, timestamps=[begin_ms + 100 * i for i in range(3000)])
    commit(settings, settings.topic_prefix + "g", topic, k)
    with stamps_of_any_time(settings):  # as while a log is loaded: its own newest stamp is its now
        partition = lag_of(reader_of(settings, settings.topic_prefix + "g"), settings.topic_prefix + "g", topic)
    assert partition.lag == 3000 - k
    assert partition.lag_s == pytest.approx((2999 - k) * 0.1, abs=0.001)


def test_time_lag_is_that_since_the_broker_got_the_record(settings_for, reader_of):
    settings = settings_for(partitions=1, timestamps="LogAppendTime")
    topic, group = Topics.of(settings).clicks, settings.topic_prefix + "g"
    write(settings, topic, [b"read"])
    commit(settings, group, topic, 1)
    reader = reader_of(settings, group)
    assert lag_of(reader, group, topic).lag_s == 0
    before = time.time()
    write(settings, topic, [b"unread"])
    after = time.time()
    time.sleep(1.5)
    write(settings, topic, [b"unread too"])
    asked = time.time()
    partition = lag_of(reader, group, topic)
    assert partition.lag == 2
    assert asked - after - 0.1 <= partition.lag_s <= time.time() - before + 0.1
    assert partition.retention_left_s == pytest.approx(7 * 86_400 - partition.lag_s, abs=1)


def test_samples_wait_by_the_wall_however_long_nobody_writes(settings_for, reader_of):
    settings = settings_for(partitions=1)  # CreateTime: the join stamps samples with its own clock
    topic, group = Topics.of(settings).samples, settings.topic_prefix + "g"
    ago_ms = round(time.time() * 1000) - 1_260_000
    write(settings, topic, [b"x"] * 15, timestamps=[ago_ms + 1000 * number for number in range(15)])
    commit(settings, group, topic, 0)
    partition = lag_of(reader_of(settings, group), group, topic)
    assert (partition.lag, partition.lag_s) == (15, pytest.approx(1260, abs=60))
    assert "the first for 21 min" in partition.reason


def test_nothing_committed_and_nothing_written(settings_for, reader_of):
    settings = settings_for(partitions=1)
    names = Topics.of(settings)
    reader = reader_of(settings, settings.topic_prefix + "nobody")
    report = reader.read()
    assert report.verdict is Verdict.OK
    assert [(partition.lag, partition.lag_s, partition.committed) for partition in report.groups[0].partitions] == [
        (0, 0.0, None)
    ] * 2
    assert report.groups[2].partitions == ()
    write(settings, names.impressions, [b"x"] * 3)
    time.sleep(SHORT.span_s + 0.2)
    partition = lag_of(reader, "join", names.impressions)
    assert (partition.verdict, partition.lag, partition.committed) == (Verdict.STOP, 3, None)
    assert partition.reason.startswith("never committed, and 3 records wait")
    assert lag_of(reader, "join", names.clicks).verdict is Verdict.OK


def test_markers_and_aborted_records_are_no_lag(settings_for, reader_of):
    settings = settings_for(partitions=1)
    topic, group = Topics.of(settings).samples, settings.topic_prefix + "g"
    for number in range(3):
        write(settings, topic, [b"x"], transaction=f"{settings.topic_prefix}w{number}")
    write(settings, topic, [b"x"] * 5, transaction=settings.topic_prefix + "a", end="abort")
    reader = reader_of(settings, group)
    for offset, lag in [(0, 3), (1, 2), (5, 0), (6, 0)]:
        commit(settings, group, topic, offset)
        partition = lag_of(reader, group, topic)
        assert (partition.end, partition.lag, partition.exact) == (12, lag, True)
    assert partition.verdict is Verdict.OK


def test_an_open_transaction_is_shown_with_its_age_and_owner(settings_for, reader_of):
    settings = settings_for(partitions=1)
    topic, group = Topics.of(settings).samples, settings.topic_prefix + "g"
    write(settings, topic, [b"x"])
    commit(settings, group, topic, 1)
    reader = reader_of(settings, group)
    assert lag_of(reader, group, topic).transaction is None
    began = time.time()
    producer = write(settings, topic, [b"x"] * 4, transaction=settings.topic_prefix + "slow", end="open")
    opened = time.time()
    time.sleep(1)
    asked = time.time()
    partition = lag_of(reader, group, topic)
    told = time.time()
    assert (partition.end, partition.lag, partition.verdict) == (1, 0, Verdict.OK)
    assert partition.transaction.writer == settings.topic_prefix + "slow"
    assert partition.transaction.offsets == 4
    assert asked - opened - 0.01 <= partition.transaction.age_s <= told - began + 0.01
    producer.commit_transaction()
    producer.close(5)
    partition = lag_of(reader, group, topic)
    assert (partition.transaction, partition.lag) == (None, 4)


def test_the_join_is_measured_from_where_it_processed_to(settings_for, reader_of):
    settings = settings_for(partitions=1, timestamps="LogAppendTime")
    names, group = Topics.of(settings), settings.topic_prefix + "glimpse-join"
    write(settings, names.impressions, [b"x"] * 10)
    an_hour_ago = round(time.time() * 1000) - 3_600_000
    assert lag_of(reader_of(settings), "join", names.impressions).transaction is None
    join_commit(settings, position=8, place=LogPosition(2, an_hour_ago, 0))
    reader = reader_of(settings)
    partition = lag_of(reader, "join", names.impressions)
    assert (partition.committed, partition.position, partition.lag) == (2, 8, 2)
    assert partition.retention_left_s == pytest.approx(7 * 86_400 - 3600, abs=5)  # a restart reads from the commit

    commit(settings, group, names.impressions, 10, "set by hand")
    partition = lag_of(reader, "join", names.impressions)
    assert (partition.position, partition.lag, partition.verdict) == (10, 0, Verdict.OK)
    assert "carries 'set by hand' and not the join's notes" in partition.note


def test_learners_are_measured_by_their_progress_records(settings_for, reader_of):
    settings = settings_for(partitions=2)
    names = Topics.of(settings)
    with admin(settings) as client:
        [samples] = client.describe_topics([names.samples])
    write(settings, names.samples, [b"x"] * 5)
    at_ms = round(time.time() * 1000)
    progress = [Progress(str(samples["topic_id"]), 0, offset, at_ms, [], offset) for offset in (0, 3)]
    write(settings, names.parameters, [encode(position) for position in progress], key=b"@samples-0")
    write(settings, names.parameters, [b"not a record"], key=b"@samples-0")
    reader = reader_of(settings)
    partition = lag_of(reader, "learn", names.samples)
    assert (partition.committed, partition.position, partition.lag) == (3, 3, 2)
    assert partition.last_commit_ms == at_ms

    with admin(settings) as client:
        client.delete_topics([names.samples])
    with pytest.raises(LagError, match=f"no topic {names.samples} "):
        reader.read()
    create_topics(settings)
    write(settings, names.samples, [b"x"] * 9)
    partition = lag_of(reader, "learn", names.samples)
    assert (partition.verdict, partition.lag) == (Verdict.REWIND, 9)
    assert partition.reason == "the topic was made again, and position 3 is of the one before"


def test_what_was_counted_is_counted_once_and_rightly(settings_for, reader_of):
    settings = settings_for(partitions=1)
    topic, group = Topics.of(settings).samples, settings.topic_prefix + "g"
    reader = reader_of(settings, group)
    commit(settings, group, topic, 0)
    for number in range(3):
        write(settings, topic, [b"x"] * 3, transaction=f"{settings.topic_prefix}w{number}")
        assert lag_of(reader, group, topic).lag == 3 * (number + 1)
    commit(settings, group, topic, 4)
    assert lag_of(reader, group, topic).lag == 6
    write(settings, topic, [b"x"] * 600)
    partition = lag_of(reader, group, topic)
    assert (partition.exact, partition.lag) == (False, 606)
    with admin(settings) as client:
        client.delete_topics([topic])
    create_topics(settings)
    write(settings, topic, [b"x"] * 700)
    commit(settings, group, topic, 4)
    assert lag_of(reader, group, topic).lag == 696


def test_a_count_that_was_broken_off_is_an_estimate_and_goes_on(settings_for):
    settings = settings_for(partitions=1)
    place = TopicPartition(Topics.of(settings).samples, 0)
    write(settings, place.topic, [b"x"] * 300)
    begin, ends = {place: Counted("id", 0, 0)}, {place: 300}
    consumer = reader(settings)
    try:
        broken = count(consumer, begin, ends, silence_s=0.0)
        assert broken[place].unread(300) == Unread(300, exact=False, first_ms=None)
        done = count(consumer, broken, ends)
        assert done[place].unread(300)[:2] == (300, True)
    finally:
        consumer.close()


def test_a_group_that_was_set_back_long_after_its_last_commit_is_seen(settings_for):
    settings = settings_for(partitions=1)
    topic, group = Topics.of(settings).clicks, settings.topic_prefix + "g"
    write(settings, topic, [b"x"] * 50)
    commit(settings, group, topic, 50)
    window = Window(span_s=8.0, commits=8)
    time.sleep(2 * window.span_s + 0.3)  # until that commit is out of what a new reader looks at
    with LagReader(settings, groups=[group], window=window) as reader:
        assert lag_of(reader, group, topic).verdict is Verdict.OK
        commit(settings, group, topic, 0)
        for _ in range(2):
            partition = lag_of(reader, group, topic)
            assert partition.verdict is Verdict.REWIND, partition
            assert partition.reason.startswith("went back from 50 to 0 ")
        give_up_at = time.monotonic() + 60
        while lag_of(reader, group, topic).verdict is not Verdict.STOP:
            assert time.monotonic() < give_up_at
            time.sleep(0.3)


def test_progress_that_is_no_place_in_a_log_is_counted_and_said(settings_for, reader_of):
    settings = settings_for(partitions=1)
    names = Topics.of(settings)
    with admin(settings) as client:
        [samples] = client.describe_topics([names.samples])
    junk = [Progress(str(samples["topic_id"]), 0, *at, [], 3) for at in ((-7, 1000), (3, -1))]
    write(settings, names.parameters, [*map(encode, junk), b"?"], key=b"@samples-0")
    reader = reader_of(settings)
    report = reader.read()
    assert report.notes == (f"3 progress records on {names.parameters} cannot be read",)
    assert lag_of(reader, "learn", names.samples).committed is None


def test_a_topic_made_again_has_no_lag_of_the_one_before(settings_for, reader_of):
    settings = settings_for(partitions=1)
    topic, group = Topics.of(settings).clicks, settings.topic_prefix + "g"
    write(settings, topic, [b"x"] * 50)
    commit(settings, group, topic, 40)
    reader = reader_of(settings, group)
    assert lag_of(reader, group, topic).lag == 10
    with admin(settings) as client:
        client.delete_topics([topic])
    create_topics(settings)
    write(settings, topic, [b"x"] * 5)
    commit(settings, group, topic, 40)  # by a consumer that did not notice
    partition = lag_of(reader, group, topic)
    assert (partition.verdict, partition.end) == (Verdict.REWIND, 5)
    assert partition.reason == "stands at 40, but the log ends at 5: it was cut or made again"
    commit(settings, group, topic, 5)
    assert lag_of(reader, group, topic).verdict is Verdict.OK


def test_gaps_that_compaction_left_are_no_lag(settings_for, reader_of, strict_broker):
    settings = settings_for(kafka=strict_broker.bootstrap, partitions=1)
    topic, group = Topics.of(settings).parameters, settings.topic_prefix + "g"
    quick = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "500"}
    with admin(settings) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, quick)])
    write(settings, topic, [b"x%d" % number for number in range(100)], key=b"same")
    commit(settings, group, topic, 0)
    reader = reader_of(settings, group)
    give_up_at = time.monotonic() + 30
    while (partition := lag_of(reader, group, topic)).lag > 20:
        time.sleep(0.5)
        write(settings, topic, [b"x"], key=b"other")  # a new record closes the old segment, which may be compacted then
        assert time.monotonic() < give_up_at, partition
    assert partition.end > 100
    assert partition.exact
    commit(settings, group, topic, partition.end)
    assert lag_of(reader, group, topic).lag == 0


def test_watching_refreshes_in_place(settings_for):
    settings = settings_for(partitions=1)
    options = {"watch": True, "rounds": 2, "every_s": 0.1, "window": SHORT}
    screen = Console(file=StringIO(), force_terminal=True, width=120, height=40)
    assert show_lag(settings, console=screen, **options) == 0
    assert "\x1b[1A" in screen.file.getvalue()  # the cursor went up, to write over what was there
    lines = Console(file=StringIO(), width=40)
    assert show_lag(settings, console=lines, as_json=True, **options) == 0
    assert [json.loads(line)["verdict"] for line in lines.file.getvalue().splitlines()] == ["OK", "OK"]
