"""Click logs: what is taken, and one clear line with the line number for what is not."""

import gzip
import json

import numpy as np
import pytest

from streams.offline.logs import LogError, read_logs

GOOD = {"session": "s", "query": "q", "items": [7, 8], "clicks": [0, 1]}


def write(path, *lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_columns_of_lists_that_differ_in_length(tmp_path):
    other = {"session": 5, "query": "p", "items": [9, 7, 8], "clicks": [1, 0, 0.5]}
    logs = read_logs(write(tmp_path / "log.jsonl", GOOD, "", other))
    assert logs.item_ids == [7, 8, 9]
    assert logs.items.tolist() == [[0, 1, -1], [2, 0, 1]]
    assert logs.clicks.tolist() == [[0, 1, 0], [1, 0, 0.5]]
    assert (logs.query_ids, logs.queries.tolist()) == (["p", "q"], [1, 0])
    assert (logs.sessions, logs.sizes.tolist(), logs.lines.tolist()) == (["s", "5"], [2, 3], [1, 3])
    assert logs.contexts is None
    assert logs.place(1) == "log.jsonl line 3"


def test_gzip_and_all_columns(tmp_path):
    full = GOOD | {"contexts": [[0.1, 0.2], [0.3, 0.4]], "propensities": [0.5, 1], "position_propensities": [0.5, 0.25]}
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(full) + "\n").encode()))
    logs = read_logs(path)
    np.testing.assert_allclose(logs.contexts, [[[0.1, 0.2], [0.3, 0.4]]], rtol=1e-6)
    assert logs.propensities.tolist() == [[0.5, 1.0]]
    assert logs.position_propensities.tolist() == [[0.5, 0.25]]


BAD = {
    "not JSON": ("{items: 1}", r"log line 2 is not JSON: Expecting property name"),
    "no object": ([1], r"log line 2: must be a JSON object with items, clicks, got \[1\]"),
    "unknown column": (GOOD | {"user": 1}, r"log line 2: unknown column 'user'; known are session, query, items"),
    "no clicks": ({"items": [1]}, r"log line 2: has no 'clicks'"),
    "no items": (GOOD | {"items": [], "clicks": []}, r"log line 2: 'items' must be a list of 1 to 50 ids, got \[\]"),
    "too many items": (GOOD | {"items": [1] * 51}, r"log line 2: 'items' must be a list of 1 to 50 ids"),
    "items of two kinds": (GOOD | {"items": ["7", "8"]}, r'log line 2: item ids must be all whole numbers .* got "7"'),
    "half an item": (GOOD | {"items": [7.5, 8]}, r"log line 2: item ids must be .* got 7.5"),
    "a large id": (GOOD | {"items": [2**63, 8]}, r"log line 2: item id 9223372036854775808 does not fit in 64 bits"),
    "ragged": (GOOD | {"clicks": [0]}, r"log line 2: 'clicks' has 1 entries, 'items' has 2$"),
    "a click beyond": (GOOD | {"clicks": [0, 0, 1]}, r"log line 2: .* a click lies beyond the list of 2"),
    "clicks as a number": (GOOD | {"clicks": 1}, r"log line 2: 'clicks' must be a list of numbers, got 1"),
    "a negative click": (GOOD | {"clicks": [0, -1]}, r"log line 2: a click is 0 or a number above, got -1"),
    "a click in words": (GOOD | {"clicks": [0, "yes"]}, r'log line 2: a click is 0 or a number above, got "yes"'),
    "NaN": (GOOD | {"clicks": [0, float("nan")]}, r"log line 2: a click is 0 or a number above, got NaN"),
    "a list as query": (GOOD | {"query": [1]}, r"log line 2: 'query' must be text or a whole number, got \[1\]"),
    "without query": ({"items": [7], "clicks": [0]}, r"log line 2 is not like the first: 'session' must be in all"),
    "contexts of one": (
        GOOD | {"contexts": [[1]]},
        r"log line 2: 'contexts' must have a vector of numbers for each of",
    ),
    "ragged contexts": (GOOD | {"contexts": [[1], [1, 2]]}, r"log line 2: 'contexts' must have a vector of numbers"),
    "chances": (GOOD | {"propensities": [0, 1]}, r"log line 2: 'propensities' must be chances above 0 and up to 1"),
}


@pytest.mark.parametrize("line, words", BAD.values(), ids=BAD)
def test_a_bad_line_is_named(tmp_path, line, words):
    with pytest.raises(LogError, match=words) as caught:
        read_logs(write(tmp_path / "log", GOOD, line))
    assert "\n" not in str(caught.value)


def test_vectors_keep_their_length(tmp_path):
    lines = [GOOD | {"contexts": [[1, 2], [3, 4]]}, GOOD | {"contexts": [[1], [3]]}]
    with pytest.raises(LogError, match=r"line 2: 'contexts' has vectors of 1 numbers, the first line of 2"):
        read_logs(write(tmp_path / "log", *lines))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(LogError, match=r"log has no lists; each line is"):
        read_logs(write(tmp_path / "log", ""))
    with pytest.raises(LogError, match=r"nowhere is not there"):
        read_logs(tmp_path / "nowhere")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress((json.dumps(GOOD) + "\n").encode() * 100)[:60])
    with pytest.raises(LogError, match=r"cut.gz cannot be read after line 0: Compressed file ended"):
        read_logs(cut)
    (tmp_path / "latin").write_bytes(b'{"items": ["\xe9"]}\n')
    with pytest.raises(LogError, match=r"latin cannot be read after line 0: 'utf-8' codec"):
        read_logs(tmp_path / "latin")
