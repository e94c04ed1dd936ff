"""Pictures are sound XML: every cell, dot and name that was given is in them, at its place."""

from xml.etree import ElementTree

import numpy as np

from streams.charts import Cell, grid, scatter


def drawn(picture, kind):
    return [shape for shape in ElementTree.fromstring(picture).iter() if shape.tag.endswith(kind)]


def test_a_grid_has_its_cells_names_and_marks():
    rows = {"<a>": [Cell("1", "#111111"), Cell("2", "#222222", hint="b & c")], "d": [Cell("3", "#333333")]}
    picture = grid(rows, ["left", "right"], wide=100, tall=40, left=50, marks={"here": (0.5, 1.0)})
    assert [cell.get("fill") for cell in drawn(picture, "rect")] == ["#111111", "#222222", "#333333"]
    assert [cell.get("x") for cell in drawn(picture, "rect")] == ["50", "150", "50"]
    assert {text.text for text in drawn(picture, "text")} == {"left", "right", "<a>", "d", "1", "2", "3", "here"}
    assert [title.text for title in drawn(picture, "title")] == ["b & c"]
    [mark] = drawn(picture, "circle")
    assert mark.get("cx") == "200"  # the middle of the second column


def test_equal_values_lie_on_the_diagonal():
    values = np.array([-0.1, 0.1, 0.2])
    picture = scatter(values, {"a": ("red", values), "b": ("blue", 0 * values)}, across="truth", up="learned")
    [line] = drawn(picture, "line")
    (left, bottom), (right, top) = ([float(line.get(f"{axis}{end}")) for axis in "xy"] for end in (1, 2))
    learned = drawn(picture, "circle")[:3]
    for dot in learned:
        x, y = float(dot.get("cx")), float(dot.get("cy"))
        assert abs(bottom + (x - left) / (right - left) * (top - bottom) - y) < 0.1
    texts = [text.text for text in drawn(picture, "text")]
    assert texts.count("0.1") == 2
    assert texts.count("truth") == texts.count("learned") == texts.count("a") == 1
