"""What an impression may say beside its rows: its split, its propensities, its candidates."""

import numpy as np
import pytest
from join_events import T0, World
from msgspec.structs import replace

from schemas.codec import encode
from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import Impression, SampleBatch
from streams.events import CANDIDATES_BYTES, user_hash
from streams.join import columns as join_columns

DRAWN = np.linspace(0.5, 1, 6, dtype="<f4")
FULL, OLD = (writer_of(schemas[SampleBatch]).header for schemas in (SCHEMAS, PLAIN))


def closed(world):
    return world.checkpoint(at=90).samples


def test_lists_without_notes_are_written_as_before_beside_others():
    world = World()
    world.show("a")
    world.show("b", split_version="v1", user_id="u-17")
    world.show("c", candidate_items=bytes(80))
    world.show("d", split_version="v1", user_id="")
    plain, split = closed(world)
    assert encode(plain)[:10] == OLD
    assert (plain.impression_ids, plain.split_version, plain.user_hashes) == (["a", "c"], "", b"")
    assert encode(split)[:10] == FULL
    assert (split.impression_ids, split.split_version, split.propensities) == (["b", "d"], "v1", b"")
    assert split.user_hashes_array.tolist() == [user_hash("u-17"), 0]


def test_propensities_go_with_the_rows_that_were_seen_and_with_corrections():
    world = World()
    world.show("a", rendered=2, propensities=DRAWN.tobytes())
    world.show("b", rendered=6, propensities=DRAWN.tobytes(), split_version="v2")
    world.show("c", rendered=3, propensities=DRAWN.tobytes())
    first, second = closed(world)
    assert first.propensities_array.tolist() == [*DRAWN[:2], *DRAWN[:3]]
    assert second.propensities_array.tolist() == DRAWN.tolist()
    for name in "cba":
        world.click(5, at=1, arrives=95, name=name)
    found = {tuple(batch.impression_ids): batch for batch in world.checkpoint(at=96).samples}
    assert set(found) == {("a", "a"), ("b", "b"), ("c", "c")}
    assert found["a", "a"].propensities_array.tolist() == [*DRAWN[:2], *DRAWN[:5]]
    assert found["a", "a"].signs_array.tolist() == [-1, 1]
    assert found["b", "b"].split_version == "v2"
    assert found["b", "b"].user_hashes_array.tolist() == [user_hash("u")] * 2


def test_a_repeat_with_another_split_is_another_list():
    world = World()
    for version in ("v1", "v1", "v2"):
        world.show("a", split_version=version)
    assert [letter.offset for letter in world.checkpoint(at=1).dead_letters] == [2]
    assert world.join.ledger.duplicates == 1


def test_notes_move_with_their_lists_when_memory_is_given_back(monkeypatch):
    monkeypatch.setattr(join_columns, "_STEP", 4)
    monkeypatch.setattr(join_columns, "_FEW", 16)
    world = World()
    for number in range(200):
        world.show(f"old{number}", at=0)
    world.time_passes(100)
    for number in range(3):
        world.show(f"new{number}", at=100, split_version=f"v{number}")
    world.checkpoint(at=121)
    world.time_passes(125)
    world.checkpoint(at=125)
    assert len(world.join._lists._columns[0].shown_at) < 200
    assert [batch.split_version for batch in world.checkpoint(at=200).samples] == ["v0", "v1", "v2"]


WRONG = {
    "a propensity of 0": ({"propensities": bytes(24)}, "propensity 0 of position 1 is not above 0 and at most 1"),
    "a propensity of 2": ({"propensities": (4 * DRAWN).tobytes()}, "propensity 2 of position 1"),
    "no number": ({"propensities": np.full(6, np.nan, "<f4").tobytes()}, "propensity nan of position 1"),
    "a long version": ({"split_version": "ä" * 33}, "a split_version of 66 bytes; at most 64"),
    "a long catalogue": ({"catalogue": "c" * 257}, "a catalogue of 257 bytes; at most 256"),
    "many candidates": (
        {"candidate_items": bytes(CANDIDATES_BYTES + 8)},
        f"candidates of {CANDIDATES_BYTES + 8} bytes",
    ),
    "far too many": ({"candidate_items": bytes(3 * CANDIDATES_BYTES)}, "an event of 786"),
    "a long user beside candidates": ({"candidate_items": bytes(8000), "user_id": "u" * 17_000}, "an event of 25"),
}


@pytest.mark.parametrize("changes, reason", WRONG.values(), ids=WRONG)
def test_notes_that_break_a_rule_are_dead_letters(changes, reason):
    world = World()
    world.show("a", **changes)
    world.show("b")
    found = world.checkpoint(at=90)
    [letter] = found.dead_letters
    assert letter.reason.startswith(reason)
    assert [batch.impression_ids for batch in found.samples] == [["b"]]


def test_candidates_have_room_of_their_own():
    world = World()
    many = CANDIDATES_BYTES // 16
    world.show("a", candidate_items=bytes(8 * many), candidate_contexts=bytes(8 * many))
    found = world.checkpoint(at=90)
    assert not found.dead_letters
    assert [encode(batch)[:10] for batch in found.samples] == [OLD], "samples do not carry them"


def test_an_impression_of_today_without_notes_is_what_older_joins_read():
    shown = Impression("i", "s", "main", "u", T0, bytes(48), bytes(48), 6)
    assert encode(shown)[:10] == writer_of(PLAIN[Impression]).header
    assert encode(replace(shown, split_version="v"))[:10] == writer_of(SCHEMAS[Impression]).header
