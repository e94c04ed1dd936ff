"""A catalogue line by line: the same one whatever the order and the kind of the file."""

import json

import numpy as np
import pytest
from ranking import write_npz

from streams.rank import CatalogueError, read_catalogue
from streams.rank.catalogue_file import CatalogueEntries, read_entries

SHOP = [
    {"recipe": ["constant", "item", "products"]},
    {"item": 9, "features": [0.25, -0.5], "tags": {"kind": ["hat", "new"]}},
    {"item": -7, "features": [0.1, 0.2], "tags": {"kind": "shoe", "shelf": 3}},
    {"item": 1 << 40, "features": [0, 1]},
    {"user": "zoë", "features": [0.5]},
    {"user": "item 9", "features": [-0.5]},
]


def entries_of(lines):
    entries = CatalogueEntries()
    for line in lines:
        entries.add(line)
    return entries


def test_the_order_of_lines_does_not_matter():
    held = entries_of(SHOP).catalogue()
    assert held.items.tolist() == [-7, 9, 1 << 40]
    assert entries_of(SHOP[::-1]).catalogue().version == held.version
    assert held.items[held.rows(tags={"kind": ["new", "shoe"]}, without=[])].tolist() == [-7, 9]
    assert held.rows_of([9, -7]).tolist() == [1, 0]
    np.testing.assert_array_equal(held.user("item 9"), [-0.5])
    others = [
        [*SHOP, {"item": 9, "features": [0.25, -0.4], "tags": {"kind": ["hat", "new"]}}],
        [*SHOP, {"item": 9, "features": [0.25, -0.5], "tags": {"kind": ["hat", "old"]}}],
        [*SHOP, {"user": "zoë", "features": [0.6]}],
        [*SHOP[:-1], {"user": "item 10", "features": [-0.5]}],
    ]
    assert len({entries_of(lines).catalogue().version for lines in others} | {held.version}) == 5


def test_lines_travel_and_are_taken_out_by_their_keys():
    entries = entries_of(SHOP)
    lines = entries.lines()
    assert set(lines) == {"recipe", "item 9", "item -7", f"item {1 << 40}", "user zoë", "user item 9"}
    again = entries_of(map(json.loads, lines.values()))
    assert again.catalogue().version == entries.catalogue().version
    for key in ("user item 9", "item -7", "item 4", "item x", "recipe", "else"):
        again.remove(key)
    assert set(again.lines()) == {"recipe", "item 9", f"item {1 << 40}", "user zoë"}


def test_arrays_and_lines_of_the_same_items_are_the_same_catalogue(tmp_path):
    arrays = write_npz(tmp_path / "shop.npz", items=50)
    lines = tmp_path / "shop.jsonl"
    lines.write_text("".join(f"{line}\n" for line in read_entries(arrays).lines().values()))
    assert read_catalogue(lines).version == read_catalogue(arrays).version
    assert read_entries(lines).lines() == read_entries(arrays).lines()


def test_what_makes_no_catalogue_is_not_published(tmp_path):
    file = tmp_path / "shop.jsonl"
    for lines, words in {
        '{"item": 7, "features": [0.5]}': "no line says the recipe",
        '{"recipe": ["item"]}\n{"item": "7"}': "line 2: this is nothing of a catalogue",
        '{"recipe": ["code"]}\n{"item": 7, "features": ["x"]}': "features must be as many numbers for each",
    }.items():
        file.write_text(lines)
        with pytest.raises(CatalogueError, match=words):
            read_entries(file)
    np.savez(tmp_path / "shop.npz", items=[1, 1], features=np.zeros((2, 1)), recipe=np.array(["item"]))
    with pytest.raises(CatalogueError, match="item 1 is there twice"):
        read_entries(tmp_path / "shop.npz")
