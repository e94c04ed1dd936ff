"""Requests for lists as JSON: what fits, and the path of what does not."""

import json

import pytest

from streams.rank.requests import RankRequest, RequestError, click_event, rank_lines, rank_request, rank_requests

DEEP = "[" * 100_000
WRONG = {
    "no object": ("7", "Expected `object | array`, got `int`"),
    "nothing": ("", "truncated"),
    "two objects": ('{"user": "u"} {}', "trailing characters"),
    "no user": ("{}", "missing required field `user`"),
    "an empty user": ('{"user": ""}', "length >= 1 - at `$.user`"),
    "a number for a user": ('{"user": 7}', "Expected `str`, got `int` - at `$.user`"),
    "a user of too many bytes": (json.dumps({"user": "é" * 200}, ensure_ascii=False), "user must be at most 256 bytes"),
    "half a character": ('{"user": "\\ud800 and more"}', "surrogate"),
    "an unknown field": ('{"user": "u", "x": 1}', "unknown field `x`"),
    "an unknown candidate": ('{"user": "u", "candidates": {"x": 1}}', "unknown field `x` - at `$.candidates`"),
    "size 0": ('{"user": "u", "size": 0}', "Expected `int` >= 1 - at `$.size`"),
    "half a size": ('{"user": "u", "size": 1.5}', "Expected `int | null`, got `float` - at `$.size`"),
    "true as a size": ('{"user": "u", "size": true}', "got `bool` - at `$.size`"),
    "too much exploration": ('{"user": "u", "explore": 1.5}', "<= 1.0 - at `$.explore`"),
    "no exploration": ('{"user": "u", "explore": null}', "got `null` - at `$.explore`"),
    "NaN": ('{"user": "u", "explore": NaN}', "malformed"),
    "an infinite number": ('{"user": "u", "user_features": [0, 1e999]}', "out of range - at `$.user_features[1]`"),
    "beyond float32": ('{"user": "u", "user_features": [0, 1e39]}', r"$.user_features[1] is beyond ±3.403e+38"),
    "an id of 65 bits": ('{"user": "u", "candidates": {"items": [7, 9223372036854775808]}}', "$.candidates.items[1]"),
    "an id of 9999 digits": (f'{{"user": "u", "candidates": {{"items": [{"9" * 9999}]}}}}', "$.candidates.items[0]"),
    "an item twice": ('{"user": "u", "candidates": {"items": [7, 7]}}', "$.candidates.items must name each item once"),
    "no item": ('{"user": "u", "candidates": {"items": [-9223372036854775808]}}', "stands for no item"),
    "rows without items": ('{"user": "u", "candidates": {"contexts": [[1]]}}', "needs $.candidates.items"),
    "no rows": (
        '{"user": "u", "candidates": {"items": [], "contexts": []}}',
        "length >= 1 - at `$.candidates.contexts`",
    ),
    "a longer row": (
        '{"user": "u", "candidates": {"items": [7, 9], "contexts": [[1], [1, 2]]}}',
        "$.candidates.contexts[1] has 2 numbers, the first row has 1",
    ),
    "text in a row": (
        '{"user": "u", "candidates": {"items": [7, 9], "contexts": [[1], ["2"]]}}',
        "Expected `float`, got `str` - at `$.candidates.contexts[1][0]`",
    ),
    "items and tags": ('{"user": "u", "candidates": {"items": [7], "tags": {"kind": "hat"}}}', "not both"),
    "a number as a tag": ('{"user": "u", "candidates": {"tags": {"kind": ["hat", 7]}}}', "$.candidates.tags[...][1]"),
    "a deep array": (DEEP, "nested too deeply"),
    "a deep field": (f'{{"user": "u", "candidates": {{"items": {DEEP}', "$.candidates.items[0]"),
}


@pytest.mark.parametrize("text, reason", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused_with_its_path(text, reason):
    with pytest.raises(RequestError) as refused:
        rank_requests(text.encode())
    assert reason in str(refused.value)


def test_a_request_is_read_as_it_is_logged():
    request = rank_request(
        b'{"user": "u", "session": null, "size": 3, "explore": "off", "user_features": [0.1],'
        b' "candidates": {"items": [7, 9], "contexts": [[0.1, 1], [2, 3]], "without": [7]}}'
    )
    assert (request.user, request.session, request.size, request.explore, request.without) == ("u", None, 3, 0.0, [7])
    assert request.items.tolist() == [7, 9]
    assert request.contexts.tolist() == [[0.10000000149011612, 1.0], [2.0, 3.0]]
    assert request.user_features.tolist() == [0.10000000149011612]
    tagged = rank_request(b'{"user": "u", "candidates": {"tags": {"kind": "hat", "size": ["s", "m"]}}}')
    assert tagged.tags == {"kind": ["hat"], "size": ["s", "m"]}


def test_requests_of_an_array_are_read_one_by_one():
    assert isinstance(rank_requests(b'{"user": "u"}'), RankRequest)
    first, second = rank_requests(b'[{"user": "u"}, {"user": 7}]')
    assert rank_request(first).user == "u"
    with pytest.raises(RequestError, match=r"got `int` - at `\$\.user`"):
        rank_request(second)


def test_a_click_is_an_event_of_feedback():
    sent = {"impression_id": "i", "session_id": "s", "position": 2}
    assert click_event(json.dumps(sent).encode()) == sent | {"reward": 1.0, "type": "click"}
    with pytest.raises(RequestError, match=r"<= 50 - at `\$\.position`"):
        click_event(json.dumps(sent | {"position": 51}).encode())


def test_text_must_be_utf8_and_lines_must_be_json():
    with pytest.raises(RequestError, match="utf-8"):
        rank_request(b'{"user": "\xff"}')
    first, second = rank_lines([b'{"user": "u"}', b"7"])
    assert rank_request(first).user == "u"
    with pytest.raises(RequestError, match="Expected `object`"):
        rank_request(second)
    with pytest.raises(RequestError, match="truncated"):
        rank_lines([b'{"user": "u"}', b'{"user"'])
