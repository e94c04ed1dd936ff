"""A service's events reach Kafka checked, keyed and whole, or an error says why not."""

import io
import json
from threading import Thread

import numpy as np
import pytest
from jobs import wait_until
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from paused import paused
from rich.console import Console

from schemas.codec import Codec, encode
from schemas.known import SCHEMAS
from schemas.records import Click, Impression
from streams.broker import admin
from streams.commands.options import bar
from streams.events import read_events
from streams.events.events import click_of, impression_of
from streams.events.job import DeliveryError, EventWriter
from streams.events.job.produce import produce_events, simulated_events
from streams.settings import Bucket, Settings, Topics

NAMES = {"impression_id": "i1", "session_id": "s1", "bucket": "main", "user_id": "u1", "shown_at_ms": 1000}
TAP = {"impression_id": "i1", "session_id": "s1", "position": 2, "clicked_at_ms": 1500}


def raw_records(settings, topic):
    """Every record of a topic, partition by partition."""
    consumer = KafkaConsumer(**settings.kafka_options(), enable_auto_commit=False)
    partitions = [TopicPartition(topic, number) for number in range(settings.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    records = []
    while any(consumer.position(part) < ends[part] for part in partitions):
        for batch in consumer.poll(timeout_ms=1000).values():
            records += batch
    consumer.close()
    return records


def read_all(settings, topic, *, codec=None):
    """Every event of a topic, partition by partition: (partition, key, time stamp, event)."""
    decode = (codec or Codec()).decode
    return [(r.partition, r.key, r.timestamp, decode(r.value)) for r in raw_records(settings, topic)]


def test_arrays_of_any_kind_become_packed_columns():
    shown = impression_of(np.array([5, 6], np.uint32), [[1, 2], [0.5, -1]], **NAMES)
    assert shown.items_array.tolist() == [5, 6]
    assert shown.contexts_array.tolist() == [[1, 2], [0.5, -1]]
    assert shown.rendered == 2
    assert (shown.ranked_by_epoch, shown.ranked_by_offset) == (0, -1)
    big_endian = impression_of(np.array([5, 6], ">i8"), np.array([[1.0], [2.0]], ">f4"), **NAMES, rendered=np.int8(1))
    assert big_endian.items == shown.items
    assert big_endian.contexts_array.tolist() == [[1], [2]]
    assert impression_of([7], **NAMES).contexts_array.shape == (1, 0)


BAD_LISTS = {
    "no items": (([], []), {}, "items must be 1 to 50 ids"),
    "51 items": ((range(51), np.zeros((51, 1))), {}, "items must be 1 to 50 ids"),
    "a table of items": (([[1]], [[0]]), {}, r"got shape \(1, 1\)"),
    "items with fractions": (([1.5], [[0]]), {}, "whole numbers of 64 bits, got float64"),
    "items beyond 64 bits": (([1 << 63], [[0]]), {}, "whole numbers of 64 bits, got uint64"),
    "items far beyond 64 bits": (([1 << 70], [[0]]), {}, "whole numbers of 64 bits, got object"),
    "named items": ((["a"], [[0]]), {}, "whole numbers"),
    "a context too few": (([1, 2], [[0]]), {}, r"one row for each of 2 items, got shape \(1, 1\)"),
    "contexts in a row": (([1, 2], [0, 0]), {}, r"got shape \(2,\)"),
    "ragged contexts": (([1, 2], [[0], [0, 1]]), {}, "as many for each item"),
    "contexts in text": (([1], [["x"]]), {}, "contexts must be numbers"),
    "more rendered than 32 bits": (([1], [[0]]), {"rendered": 1 << 31}, "rendered must be a whole number from -2147"),
    "a long user": (([1], [[0]]), {"user_id": "u" * 257}, "user_id must be at most 256 bytes"),
    "half a letter": (([1], [[0]]), {"session_id": "\ud800"}, "surrogates not allowed"),
    "a flag for a number": (([1], [[0]]), {"rendered": True}, "rendered must be"),
    "no session": (([1], [[0]]), {"session_id": ""}, "session_id must be text, got ''"),
    "a number for a name": (([1], [[0]]), {"bucket": 5}, "bucket must be text, got 5"),
    "a time with a fraction": (([1], [[0]]), {"shown_at_ms": 1.5}, "shown_at_ms must be a whole number"),
    "a negative epoch": (([1], [[0]]), {"ranked_by_epoch": -1}, "ranked_by_epoch must be"),
    "a propensity too few": (([1, 2], [[0], [0]]), {"propensities": [0.5]}, "for each of 2 items"),
    "propensities in text": (([1], [[0]]), {"propensities": ["x"]}, "propensities must be numbers"),
    "named candidates": (([1], [[0]]), {"candidate_items": ["a"]}, "candidate_items must be whole numbers"),
    "contexts without candidates": (([1], [[0]]), {"candidate_contexts": [[0]]}, "candidate_contexts must be one row"),
    "candidates in another dimension": (
        ([1], [[0]]),
        {"candidate_items": [1, 2], "candidate_contexts": [[0, 0], [0, 0]]},
        "not the 4 of an item for each of 2 candidates",
    ),
    "a number for a split": (([1], [[0]]), {"split_version": 3}, "split_version must be text"),
}


@pytest.mark.parametrize("arrays, changes, reason", BAD_LISTS.values(), ids=BAD_LISTS)
def test_a_bad_list_is_refused_by_name(arrays, changes, reason):
    with pytest.raises(ValueError, match=reason):
        impression_of(*arrays, **NAMES | changes)


BAD_CLICKS = {
    "a fraction": ({"position": 1.5}, "position must be a whole number from -2147483648 to 2147483647, got 1.5"),
    "a reward in text": ({"reward": "1"}, "reward must be a number, got '1'"),
    "a flag for a reward": ({"reward": True}, "reward must be a number, got True"),
    "no list": ({"impression_id": ""}, "impression_id must be text"),
}


@pytest.mark.parametrize("changes, reason", BAD_CLICKS.values(), ids=BAD_CLICKS)
def test_a_bad_click_is_refused_by_name(changes, reason):
    with pytest.raises(ValueError, match=reason):
        click_of(**TAP | changes)


def test_json_lines_are_events():
    shown = {"type": "impression", **NAMES, "items": [5, 6], "contexts": [[0.5], [1]], "rendered": 1}
    lines = [json.dumps(shown), "", json.dumps({"type": "click", **TAP, "reward": 0.5})]
    assert list(read_events(lines)) == [
        impression_of([5, 6], [[0.5], [1]], **NAMES, rendered=1),
        click_of(**TAP, reward=0.5),
    ]


def test_json_lines_may_say_what_a_list_was_chosen_from():
    more = {"split_version": "autumn-2", "catalogue": "c7", "propensities": [0.5, 1]}
    more |= {"candidate_items": [5, 6, 7], "candidate_contexts": [[0.5], [1], [0]]}
    shown = {"type": "impression", **NAMES, "items": [5, 6], "contexts": [[0.5], [1]], **more}
    [event] = read_events([json.dumps(shown)])
    assert event == impression_of([5, 6], [[0.5], [1]], **NAMES, **more)
    assert event.propensities_array.tolist() == [0.5, 1]
    assert event.candidate_items_array.tolist() == [5, 6, 7]
    assert event.candidate_contexts_array.tolist() == [[0.5], [1], [0]]
    assert (event.split_version, event.catalogue) == ("autumn-2", "c7")


BAD_LINES = {
    "no JSON": ("{", "line 2 is not JSON: Expecting property name"),
    "no object": ("[1]", "line 2: expected an object with a type, got list"),
    "no type": ("{}", 'type must be "impression" or "click", got null'),
    "a missing field": ('{"type": "click", "position": 1}', "click without clicked_at_ms, impression_id, session_id"),
    "an unknown field": (
        json.dumps({"type": "click", **TAP, "pos": 1}),
        "click has no field pos; allowed: impression_id",
    ),
    "a bad value": (json.dumps({"type": "click", **TAP, "position": "2"}), "line 2: position must be a whole number"),
    "a row too few": (
        json.dumps({"type": "impression", **NAMES, "items": [1, 2], "contexts": [[0]]}),
        "line 2: contexts must be one row for each of 2 items",
    ),
    "deep nesting": ("[" * 100_000, "line 2 is not JSON: nested too deeply"),
}


@pytest.mark.parametrize("line, reason", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_refused_with_its_number(line, reason):
    events = read_events([json.dumps({"type": "click", **TAP}), line])
    assert next(events) == click_of(**TAP)
    with pytest.raises(ValueError, match=reason):
        next(events)


def test_simulated_lists_keep_the_rules_of_their_buckets():
    buckets = {"a": Bucket("a", dim=3, positions=5, context_scale=2.0), "b": Bucket("b", dim=1, positions=1)}
    events = list(simulated_events(Settings(buckets=buckets), 400, seed=3, clock=lambda: 1000.0))
    shown = {event.impression_id: event for event in events if isinstance(event, Impression)}
    clicks = [event for event in events if isinstance(event, Click)]
    assert len(shown) == 400
    assert {event.bucket for event in shown.values()} == {"a", "b"}
    assert 50 < len(clicks) < 1000
    assert all(1 <= tap.position <= shown[tap.impression_id].rendered for tap in clicks)
    assert all(tap.session_id == shown[tap.impression_id].session_id for tap in clicks)
    first, low = (sum(tap.position == position for tap in clicks) for position in (1, 5))
    assert first > 2 * low
    assert events == list(simulated_events(Settings(buckets=buckets), 400, seed=3, clock=lambda: 1000.0))
    with pytest.raises(ValueError, match="no buckets"):
        next(simulated_events(Settings(), 1))


def test_a_list_and_its_clicks_meet_in_one_partition(settings_for):
    settings = settings_for()
    random = np.random.default_rng(1)
    with EventWriter(settings, clock=lambda: 1_731_700_000.5) as events:
        for session in range(40):
            name = f"session-{session}"
            shown = events.impression(
                *(np.arange(12), random.uniform(-1, 1, (12, 10))),
                **{"session_id": name, "bucket": "main", "user_id": "u", "rendered": 8, "ranked_by": (2, 77)},
            )
            events.click(shown, 3, session_id=name, reward=0.5)
    names = Topics.of(settings)
    lists, clicks = read_all(settings, names.impressions), read_all(settings, names.clicks)
    assert len(lists) == len(clicks) == 40
    assert {place for place, *_ in lists} == set(range(settings.partitions))
    home = {event.impression_id: (place, key) for place, key, _, event in lists}
    assert len(home) == 40
    for place, key, _, click in clicks:
        assert home[click.impression_id] == (place, key)
        assert click == Click(click.impression_id, key.decode(), 3, 1_731_700_000_500, 0.5)
    shown = lists[0][3]
    assert (shown.rendered, shown.ranked_by_epoch, shown.ranked_by_offset) == (8, 2, 77)
    assert shown.contexts_array.shape == (12, 10)


def test_what_the_join_would_refuse_is_not_sent(settings_for):
    settings = settings_for(buckets={"main": Bucket("main", dim=1, positions=2)})
    who = {"session_id": "s", "user_id": "u"}
    with EventWriter(settings) as events:
        for arrays, bucket, reason in [
            (([1], [[0.5]]), "other", "unknown bucket 'other'"),
            (([1, 2, 3], [[0], [0], [0]]), "main", "longer than the 2"),
            (([1], [[0, 0]]), "main", "wants 1"),
            (([1], [[1.5]]), "main", "not within ±1"),
        ]:
            with pytest.raises(ValueError, match=reason):
                events.impression(*arrays, bucket=bucket, **who)
        events.impression([1], [[0.5]], bucket="main", **who)
    assert len(read_all(settings, Topics.of(settings).impressions)) == 1


def test_a_writer_without_buckets_judges_what_holds_of_every_bucket(settings_for):
    settings = settings_for(buckets={})
    with EventWriter(settings) as events:
        with pytest.raises(ValueError, match="position 0; positions start at 1"):
            events.click("i", 0, session_id="s")
        with pytest.raises(ValueError, match="2 positions rendered of a list of 1"):
            events.impression([1], [[0.5]], bucket="any", session_id="s", user_id="u", rendered=2)
        events.impression([1], [[0.5]], bucket="any", session_id="s", user_id="u")
    assert len(read_all(settings, Topics.of(settings).impressions)) == 1


def test_confluent_framing_is_an_option_for_the_writer(settings_for):
    settings = settings_for(registry={7: "impressions", 8: "clicks"})
    codec = Codec(confluent={7: SCHEMAS[Impression], 8: SCHEMAS[Click]})
    with EventWriter(settings) as events:
        events.click("i1", 1, session_id="s1", clicked_at_ms=5)
    [(_, key, _, click)] = read_all(settings, Topics.of(settings).clicks, codec=codec)
    assert (key, click) == (b"s1", Click("i1", "s1", 1, 5))


def test_events_without_an_id_keep_single_object_framing(settings_for):
    settings = settings_for(buckets={"main": Bucket("main", dim=1, positions=2)}, registry={7: "impressions"})
    with EventWriter(settings) as events:
        events.impression([1], [[0.5]], bucket="main", session_id="s1", user_id="u")
        events.click("i1", 1, session_id="s1", clicked_at_ms=5)
    names = Topics.of(settings)
    [shown], [clicked] = raw_records(settings, names.impressions), raw_records(settings, names.clicks)
    assert shown.value[:5] == b"\0\0\0\0\7"
    assert clicked.value == encode(Click("i1", "s1", 1, 5))


def test_a_missing_topic_and_a_missing_broker_are_named(kafka):
    with (
        EventWriter(Settings(kafka=kafka, topic_prefix="nowhere-"), timeout_s=1) as events,
        pytest.raises(DeliveryError, match=r"cannot write to 'nowhere-clicks'.*glimpse topics"),
    ):
        events.click("i1", 1, session_id="s1")
    with pytest.raises(DeliveryError, match=r"no Kafka at 127\.0\.0\.1:1 within 1 s"):
        EventWriter("127.0.0.1:1", timeout_s=1)


def test_what_the_broker_refuses_is_told_at_the_next_call(settings_for):
    settings = settings_for()
    topic = Topics.of(settings).clicks
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "200"})
    with admin(settings) as client:
        client.alter_configs([resource])

        def limited():  # the broker takes a config over from its controller a moment later
            described = client.describe_configs([resource])["topic"][topic]
            return described.get("max.message.bytes", {}).get("value") == "200"

        wait_until(limited, timeout_s=60)
    with EventWriter(settings) as events:
        events.click("i" * 250, 1, session_id="s1")
        with pytest.raises(
            DeliveryError, match=r"1 events were not delivered; the first because: .*MessageSizeTooLarge"
        ):
            events.flush()
        events.click("i1", 2, session_id="s1")  # once told, the service may go on
    assert [event.position for *_, event in read_all(settings, topic)] == [2]


def test_a_silent_broker_is_told_and_gets_the_events_when_it_wakes(settings_for, new_broker):
    broker = new_broker()
    settings = settings_for(kafka=broker.bootstrap)
    with EventWriter(settings) as events:
        events.click("i1", 1, session_id="s1")
        events.flush()
        with paused(broker):
            events.timeout_s = 1
            events.click("i1", 2, session_id="s1")
            with pytest.raises(DeliveryError, match="not delivered within 1 s"):
                events.flush()
        events.timeout_s = 60
    found = [event.position for *_, event in read_all(settings, Topics.of(settings).clicks)]
    assert found == [1, 2]


def test_a_writer_that_cannot_deliver_what_is_left_says_so(settings_for, new_broker):
    broker = new_broker()
    settings = settings_for(kafka=broker.bootstrap)
    events = EventWriter(settings, timeout_s=60)
    events.click("i1", 1, session_id="s1")
    events.flush()
    events.timeout_s = 1
    with paused(broker):
        events.click("i1", 2, session_id="s1")
        with pytest.raises(DeliveryError, match="not delivered within 1 s"):
            events.close()


def test_threads_share_a_writer(settings_for):
    settings = settings_for()
    with EventWriter(settings) as events:

        def write(name):
            for position in range(1, 26):
                events.click(name, position, session_id=name)

        threads = [Thread(target=write, args=(f"i{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    clicks = [event for *_, event in read_all(settings, Topics.of(settings).clicks)]
    assert sorted((c.impression_id, c.position) for c in clicks) == [
        (f"i{number}", position) for number in range(4) for position in range(1, 26)
    ]


def test_produce_writes_every_event_at_its_rate_and_time(settings_for):
    settings = settings_for()
    events = list(simulated_events(settings, 60, seed=1, clock=lambda: 1_731_700_000.0))
    screen = io.StringIO()
    done = produce_events(
        settings, events, rate=200, total=len(events), progress=bar(Console(file=screen, force_terminal=True))
    )
    assert (done.impressions, done.clicks) == (60, len(events) - 60)
    assert len(events) / 200 - 0.1 < done.seconds < len(events) / 200 + 5
    assert f"{len(events)}/{len(events)}" in screen.getvalue()
    names = Topics.of(settings)
    found = read_all(settings, names.impressions) + read_all(settings, names.clicks)
    assert sorted(map(repr, events)) == sorted(repr(event) for *_, event in found)
    times = {getattr(event, "shown_at_ms", None) or event.clicked_at_ms: stamp for _, _, stamp, event in found}
    assert all(event_ms == stamp for event_ms, stamp in times.items())


def test_produce_dates_recorded_events_anew_when_asked(settings_for):
    settings = settings_for()
    done = produce_events(settings, [click_of(**TAP)], restamp=True)
    [(_, _, stamp, click)] = read_all(settings, Topics.of(settings).clicks)
    assert done.clicks == 1
    assert stamp == click.clicked_at_ms > 1_731_000_000_000
    with pytest.raises(ValueError, match="rate must be a positive number"):
        produce_events(settings, [], rate=0)


def test_events_before_a_bad_line_are_delivered(settings_for):
    settings = settings_for()
    lines = [json.dumps({"type": "click", **TAP}), "not JSON"]
    with pytest.raises(ValueError, match=r"events\.jsonl 2 is not JSON: "):
        produce_events(settings, read_events(lines, "events.jsonl"))
    assert [event for *_, event in read_all(settings, Topics.of(settings).clicks)] == [click_of(**TAP)]
