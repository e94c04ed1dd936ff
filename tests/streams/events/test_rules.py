"""A rule is declared once: the writer, the ranking service and the join reject with its sentence."""

import re
from contextlib import closing

import pytest
from ranking import Client, serving

from streams.embedded.job import Embedded
from streams.events import event_of, rules
from streams.events.job import EventWriter
from streams.logs import letters_end, read_letters
from streams.logs.job import open_source
from streams.settings import Bucket

AT_MS = 1_700_000_000_000
FAR_MS = 2 * AT_MS
CUT = r" \(the first \d+ of \d+ bytes of its value\)$"  # what dead letters add when they are cut to fit
NOT_EVEN = rules.Rule(
    "even lists",
    lambda batch: batch.columns.size % 2 == 1,
    lambda batch, index: f"a list of {batch.columns.size[index]} items, which is odd; show another one",
)
NO_THIRTEEN = rules.Rule(
    "no thirteenth position",
    lambda batch: batch.columns.position == 13,
    lambda batch, index: f"position {batch.columns.position[index]} brings bad luck; leave it empty",
)
NO_LAST = rules.Rule(
    "not the last position",
    lambda clicks: clicks.position == clicks.list_size,
    lambda clicks, index: f"position {clicks.position[index]} is the last; click higher",
)
ADDED = {
    "impressions": ("IMPRESSION_RULES", NOT_EVEN, "a list of 3 items, which is odd; show another one"),
    "clicks": ("CLICK_RULES", NO_THIRTEEN, "position 13 brings bad luck; leave it empty"),
}
BROKEN = {  # (table, rule): the fields that break it, and its sentence
    ("IMPRESSION_RULES", "known bucket"): ({"bucket": "b"}, "unknown bucket 'b'; configured are main"),
    ("IMPRESSION_RULES", "list length"): (
        {"items": list(range(21)), "contexts": [[0.5]] * 21},
        "a list of 21 items is longer than the 20 of bucket 'main'",
    ),
    ("IMPRESSION_RULES", "context length"): (
        {"contexts": [[0.5, 0.5]] * 3},
        "contexts have 2 numbers an item; bucket 'main' wants 1",
    ),
    ("IMPRESSION_RULES", "id length"): ({"impression_id": "i" * 257}, "an impression id of 257 bytes; at most 256"),
    ("IMPRESSION_RULES", "session length"): ({"session_id": "ß" * 129}, "a session id of 258 bytes; at most 256"),
    ("IMPRESSION_RULES", "item ids"): (
        {"items": [1, -(2**63), 3]},
        "item -9223372036854775808, which stands for no item; take another id",
    ),
    ("IMPRESSION_RULES", "rendered positions"): (
        {"rendered": 4},
        "4 positions rendered of a list of 3; wanted 1 to 3",
    ),
    ("IMPRESSION_RULES", "time of display"): (
        {"shown_at_ms": FAR_MS},
        r"shown [\d.e+]+ s after its own record; at most 300 s; check the producer's clock",
    ),
    ("IMPRESSION_RULES", "context scale"): (
        {"contexts": [[0.5], [1e300], [0.5]]},
        "context inf of position 2, feature 1 is not within ±1, the context_scale of bucket 'main'",
    ),
    ("IMPRESSION_RULES", "split version length"): (
        {"split_version": "v" * 65},
        "a split_version of 65 bytes; at most 64",
    ),
    ("IMPRESSION_RULES", "catalogue length"): ({"catalogue": "c" * 257}, "a catalogue of 257 bytes; at most 256"),
    ("IMPRESSION_RULES", "candidates size"): (
        {"candidate_items": list(range(32_769))},
        "candidates of 262152 bytes; at most 262144; log fewer, or name their catalogue",
    ),
    ("IMPRESSION_RULES", "propensities"): (
        {"propensities": [0.5, 1, 0]},
        "propensity 0 of position 3 is not above 0 and at most 1",
    ),
    ("IMPRESSION_RULES", "candidate contexts"): (
        {"candidate_items": [7, 8], "candidate_contexts": [[0.5], [-1e300]]},
        "context -inf of candidate 2, feature 1 is not finite as float32",
    ),
    ("CLICK_RULES", "id length"): ({"impression_id": "i" * 300}, "an id of 300 bytes; at most 256"),
    ("CLICK_RULES", "position"): ({"position": 0}, "position 0; positions start at 1"),
    ("CLICK_RULES", "last position"): ({"position": 51}, "position 51; no list has more than 50"),
    ("CLICK_RULES", "reward"): ({"reward": -1}, "reward -1 is not a finite number of 0 or more"),
    ("CLICK_RULES", "time of click"): (
        {"clicked_at_ms": FAR_MS},
        r"clicked [\d.e+]+ s after its own record; at most 300 s; check the producer's clock",
    ),
    ("LIST_RULES", "session of its list"): (
        {"session_id": "another"},
        "a click of another session than its list's; check the producer",
    ),
    ("LIST_RULES", "position on its list"): (
        {"position": 4},
        "position 4 is beyond the list of 3; check the producer",
    ),
    ("LIST_RULES", "reward scale"): (
        {"reward": 2},
        "reward 2 is above 1, the reward_scale of its bucket; check the producer",
    ),
}
ONLY_THE_BROKER_STAMPS = "the writer judges by the event's own time, since only the broker knows its record's"
ONLY_THE_JOIN_HAS_LISTS = "a click's list is known where both logs are read"
UNSEEN = {  # what cannot reject by a rule, and why
    ("writer", "IMPRESSION_RULES", "time of display"): ONLY_THE_BROKER_STAMPS,
    ("writer", "CLICK_RULES", "time of click"): ONLY_THE_BROKER_STAMPS,
    **{
        (who, "LIST_RULES", rule.name): ONLY_THE_JOIN_HAS_LISTS
        for who in ("writer", "service")
        for rule in rules.LIST_RULES
    },
}


def event(topic, **changes):
    who = {"impression_id": "i", "session_id": "s"}
    if topic == "clicks":
        return {"type": "click", **who, "position": 13, "clicked_at_ms": AT_MS, **changes}
    lists = {"bucket": "main", "user_id": "u", "items": [1, 2, 3], "contexts": [[0.5]] * 3, "shown_at_ms": AT_MS}
    return {"type": "impression", **who, **lists, **changes}


def broken(table, name):
    changes = BROKEN[table, name][0]
    if table == "IMPRESSION_RULES":
        return event("impressions", **changes)
    return event("clicks", **{"impression_id": "open", "position": 1} | changes)


def said_by_writer(settings, bodies):
    """The sentence for each of the bodies that the writer rejects, by index."""
    said = {}
    with EventWriter(settings) as writer:
        for index, body in enumerate(bodies):
            try:
                writer.send(event_of(body))
            except ValueError as error:
                said[index] = str(error)
    return said


def said_by_service(settings, bodies, folder):
    with serving(settings, source=str(folder)) as server:
        answer = Client(server).post("/feedback", bodies)
    return {error["index"]: error["error"] for error in answer.found["errors"]}


def said_by_join(settings, bodies, folder):
    of_kind = {
        kind: [index for index, body in enumerate(bodies) if body["type"] == kind] for kind in ("impression", "click")
    }
    with Embedded(folder, settings, partitions=1) as loop:
        loop.append([event_of(body) for body in bodies], at_ms=AT_MS)
        loop.step(AT_MS + 3_600_000)
    with closing(open_source(str(folder), settings)) as logs:
        letters = [refusal.letter for refusal in read_letters(logs, letters_end(logs))]
    return {
        of_kind[letter.topic.removesuffix("s")][letter.offset]: re.sub(CUT, "", letter.reason) for letter in letters
    }


def test_every_rule_rejects_with_the_same_sentence_everywhere(settings_for, tmp_path):
    settings = settings_for(buckets={"main": Bucket("main", dim=1, positions=20)})
    tables = ("IMPRESSION_RULES", "CLICK_RULES", "LIST_RULES")
    assert set(BROKEN) == {(table, rule.name) for table in tables for rule in getattr(rules, table)}
    bodies = [broken(*rule) for rule in BROKEN] + [event("impressions", impression_id="open")]
    said = {
        "writer": said_by_writer(settings, bodies),
        "service": said_by_service(settings, bodies, tmp_path),
        "join": said_by_join(settings, bodies, tmp_path / "logs"),
    }
    for index, (rule, (_, sentence)) in enumerate(BROKEN.items()):
        for who, sentences in said.items():
            if (who, *rule) in UNSEEN:
                assert index not in sentences
            else:
                assert re.fullmatch(sentence, sentences[index]), (who, rule)


@pytest.mark.parametrize("topic", ADDED)
def test_a_new_rule_rejects_with_its_own_sentence_everywhere(topic, settings_for, tmp_path, monkeypatch):
    table, rule, sentence = ADDED[topic]
    monkeypatch.setattr(rules, table, (*getattr(rules, table), rule))
    settings = settings_for(buckets={"main": Bucket("main", dim=1, positions=20)})
    bodies = [event(topic)]
    assert said_by_writer(settings, bodies) == {0: sentence}
    assert said_by_service(settings, bodies, tmp_path) == {0: sentence}
    assert said_by_join(settings, bodies, tmp_path / "logs") == {0: sentence}


def test_a_new_rule_for_clicks_on_a_list_rejects_with_its_own_sentence(settings_for, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "LIST_RULES", (*rules.LIST_RULES, NO_LAST))
    settings = settings_for(buckets={"main": Bucket("main", dim=1, positions=20)})
    bodies = [event("impressions"), event("clicks", position=3), event("clicks", position=2)]
    assert said_by_join(settings, bodies, tmp_path) == {1: "position 3 is the last; click higher"}


def test_a_list_that_breaks_a_rule_is_not_offered(settings_for, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "IMPRESSION_RULES", (*rules.IMPRESSION_RULES, NOT_EVEN))
    settings = settings_for(buckets={"main": Bucket("main", dim=1, positions=20)})
    wish = {"user": "u", "candidates": {"items": [1, 2, 3], "contexts": [[0.5]] * 3}}
    with serving(settings, source=str(tmp_path)) as server:
        client = Client(server)
        answer = client.post("/rank", wish)
        assert (answer.status, answer.found) == (400, {"error": ADDED["impressions"][2]})
        assert client.post("/rank", [wish, {**wish, "size": 2}]).found[0] == {"error": ADDED["impressions"][2]}
        assert client.post("/rank", {**wish, "size": 2}).status == 200
