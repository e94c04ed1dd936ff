"""Payloads read together: whatever they hold, what comes out is what reading them one by one gives."""

from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from schemas.codec import SchemaError, decode, encode
from schemas.event_columns import ClickColumns, ImpressionColumns, read_clicks, read_impressions
from schemas.records import Click, Impression

AT_MS = 1_700_000_000_000


def impression(number, *, size=12, dim=10, **changes):
    rng = np.random.default_rng(number)
    shown = Impression(
        f"list-{number:06}",
        f"session-{number}",
        "main",
        f"user-{number % 7}",
        AT_MS + number,
        rng.integers(1 << 40, size=size).astype("<i8").tobytes(),
        rng.uniform(-1, 1, size * dim).astype("<f4").tobytes(),
        size,
        1 + number % 3,
        number * 1000,
    )
    return replace(shown, **changes)


COMMON = {
    Impression: [
        impression(1),
        impression(2, size=1),
        impression(3, dim=0),
        impression(4, size=50, dim=3),
        impression(5, impression_id="", session_id="", bucket="", user_id=""),
        impression(6, rendered=0),
        impression(7, ranked_by_epoch=-1, ranked_by_offset=-1),
        impression(8, ranked_by_epoch=2**31 - 1, ranked_by_offset=2**63 - 1),
        impression(9, impression_id="x" * 63),
    ],
    Click: [
        Click("list", "session", 3, AT_MS),
        Click("", "", 0, AT_MS),
        Click("list", "session", 63, AT_MS, float("nan")),
        Click("x" * 63, "y" * 63, 1, AT_MS, -0.0),
    ],
}
UNUSUAL = {
    Impression: [
        impression(10, impression_id="x" * 64),
        impression(11, user_id="süß"),
        impression(12, session_id="日本"),
        impression(13, shown_at_ms=0),
        impression(14, shown_at_ms=-5),
        impression(15, shown_at_ms=2**62),
        impression(16, rendered=64),
        impression(17, rendered=-1),
        impression(18, size=3000, dim=1),
        impression(19, split_version="v1"),
        impression(20, size=2, propensities=np.ones(2, "<f4").tobytes()),
    ],
    Click: [Click("é", "s", 1, AT_MS), Click("i", "s", 64, AT_MS), Click("i", "s", -1, AT_MS), Click("i", "s", 1, 0)],
}
HEADERS = {kind: encode(COMMON[kind][0])[:10] for kind in COMMON}
READERS = {
    Impression: (partial(read_impressions, header=HEADERS[Impression], end=b""), ImpressionColumns),
    Click: (partial(read_clicks, header=HEADERS[Click]), ClickColumns),
}


def same(found, wanted):
    """Assert that two sets of columns are the same to the bit."""
    for mine, yours in zip(found, wanted, strict=True):
        assert len(mine) == len(yours)
        assert (
            mine == yours if isinstance(mine, list) else (mine.dtype, mine.tobytes()) == (yours.dtype, yours.tobytes())
        )


@pytest.mark.parametrize("kind", [Impression, Click])
def test_the_common_kind_is_read_together_and_the_unusual_left_alone(kind):
    read, columns = READERS[kind]
    events = [event for pair in zip(COMMON[kind] * 3, UNUSUAL[kind] * 3, strict=False) for event in pair]
    which, found = read([encode(event) for event in events])
    assert which.tolist() == list(range(0, len(events), 2))
    same(found, columns.of(events[::2]))
    same(read([encode(event) for event in COMMON[kind]])[1], columns.of(COMMON[kind]))
    nothing = read(
        [b"", b"\xc3\x01", b"no Avro at all", encode(COMMON[Click if kind is Impression else Impression][0])]
    )
    assert nothing[0].tolist() == []
    assert [len(column) for column in nothing[1]] == [0] * len(columns._fields)


@pytest.mark.parametrize("kind", [Impression, Click])
def test_a_merge_puts_every_event_where_it_was(kind):
    read, columns = READERS[kind]
    events = [*UNUSUAL[kind], *COMMON[kind], *UNUSUAL[kind][:2]]
    which, found = read([encode(event) for event in events])
    rest = np.delete(np.arange(len(events)), which)
    same(found.merged(which, columns.of([events[index] for index in rest]), rest), columns.of(events))


def test_some_of_the_columns():
    events = COMMON[Impression] * 5
    for which in ([0, 3, 4], [], [7], list(range(1, 45)), [n for n in range(45) if n != 20], list(range(0, 45, 2))):
        picked = ImpressionColumns.of(events).pick(np.array(which, np.int64))
        same(picked, ImpressionColumns.of([events[index] for index in which]))


@pytest.mark.parametrize("kind", [Impression, Click])
def test_damaged_payloads_are_read_as_one_by_one_or_not_at_all(kind):
    read, columns = READERS[kind]
    rng = np.random.default_rng(5)
    for event in (COMMON[kind][0], COMMON[kind][1]):
        good, damaged = encode(event), []
        for at in range(len(good)):
            others = (0, 1, 127, 128, 255, int(rng.integers(256)))
            damaged += [good[:at] + bytes([byte]) + good[at + 1 :] for byte in others]
            damaged += [good[:at], good[:at] + good[at + 1 :], good[:at] + b"\0" + good[at:]]
        which, found = read(damaged)
        assert 0 < len(which) < len(damaged)
        same(found, columns.of([decode(damaged[index], kind) for index in which]))
        for index in np.delete(np.arange(len(damaged)), which).tolist():
            if readable(damaged[index], kind) and decode(damaged[index], kind) == event:
                pytest.fail(f"{damaged[index]!r} was left alone")


def readable(payload, kind):
    try:
        decode(payload, kind)
    except SchemaError:
        return False
    return True
