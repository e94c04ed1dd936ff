"""Metarank's documented events, as its users would send them."""

import json

import pytest
from metarank_events import INTERACTION, ITEM, RANKING

from schemas.records import Click, Impression
from streams.embedded.job import Embedded
from streams.events import MetarankEvents, read_events
from streams.events.metarank import item_number
from streams.settings import Bucket, Settings

BUCKET = Bucket("main", dim=1, positions=2, context_scale=2.0)


def translated(*events, bucket=BUCKET, **options):
    metarank = MetarankEvents(lambda user: bucket, **options)
    return list(read_events(map(json.dumps, events), foreign=metarank.event_of))


def test_documented_events_become_an_impression_and_a_click():
    shown, click = translated(ITEM, RANKING, INTERACTION)
    assert isinstance(shown, Impression)
    assert (shown.impression_id, shown.session_id, shown.user_id) == (RANKING["id"], "session1", "user1")
    assert shown.items_array.tolist() == [item_number("item3"), item_number("item1")]  # cut to the bucket's K
    assert shown.contexts_array.tolist() == [[2.0], [1.0]]
    assert click == Click(RANKING["id"], "session1", 2, 1599391467000)


def test_the_older_form_of_relevancy_and_other_times_are_read():
    items = [{"id": "7", "relevancy": 0.5}, {"id": "9", "relevancy": 0.25}]
    older = {**RANKING, "items": items, "timestamp": "2022-06-22T11:21:39Z", "session": None, "user": None}
    [shown] = translated(older)
    assert shown.items_array.tolist() == [7, 9]
    assert shown.contexts_array.tolist() == [[0.5], [0.25]]
    assert (shown.shown_at_ms, shown.session_id, shown.user_id) == (1655896899000, RANKING["id"], "")


def test_interactions_outside_of_lists_are_passed_over():
    assert len(translated(RANKING, {**INTERACTION, "ranking": None})) == 1


BAD = {
    "a ranking that never came": ([INTERACTION], "did not come before"),
    "an item that was not shown": ([RANKING, {**INTERACTION, "item": "item2"}], "not on the list"),
    "no items": ([{**RANKING, "items": []}], "a ranking has items"),
    "no id": ([{**RANKING, "id": None}], "ranking without id"),
    "another event": ([{"event": "sale"}], 'must be "ranking"'),
    "a time of day": ([{**RANKING, "timestamp": "12:30"}], "isoformat|timestamp must be"),
    "uneven fields": ([{**RANKING, "items": [{"id": "a", "relevancy": 1}, {"id": "b"}]}], "same number of numbers"),
}


@pytest.mark.parametrize("events, words", BAD.values(), ids=BAD)
def test_what_cannot_be_used_says_why(events, words):
    with pytest.raises(ValueError, match=words):
        translated(*events)


def test_documented_events_are_learned(tmp_path):
    at_ms = int(RANKING["timestamp"])
    settings = Settings(buckets={"main": BUCKET}, wait_s=60, lateness_s=60)
    with Embedded(tmp_path, settings) as runner:
        runner.append(translated(ITEM, RANKING, INTERACTION), at_ms=at_ms + 1000)
        runner.step(at_ms + 1000)
        [snapshot] = runner.step(at_ms + 200_000)
    assert snapshot.rounds == 1
    assert snapshot.theta_array[0] > 0
