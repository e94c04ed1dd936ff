"""The reader of raw events reads a batch at once; only records of a rare form are read one by one."""

from collections import namedtuple

import pytest
from msgspec.structs import replace

from schemas.codec import Codec
from schemas.known import SCHEMAS
from schemas.records import Click, Impression
from streams.events import EventReader

Sent = namedtuple("Sent", "key value")
CONFLUENT = Codec(confluent={7: SCHEMAS[Impression], 8: SCHEMAS[Click]})
PLAIN = Codec()
AT_MS = 1_731_700_000_000
MOST_BYTES = 100_000


class CountingReader(EventReader):
    """Counts the events that it reads one by one."""

    single = 0

    def event(self, value, kind=None, **options):
        self.single += 1
        return super().event(value, kind, **options)


def shown(number, **optional):
    return Impression(f"i{number}", "s", "main", "u", AT_MS + number, bytes(16), bytes(24), 2, **optional)


def clicked(number):
    return Click(f"i{number}", "s", 2, AT_MS + number)


def versioned(number):
    return shown(number, split_version="v2")


COMMON = {
    "plain impressions": lambda number: PLAIN.encode(shown(number)),
    "Confluent impressions": lambda number: CONFLUENT.encode(shown(number)),
    "plain clicks": lambda number: PLAIN.encode(clicked(number)),
    "Confluent clicks": lambda number: CONFLUENT.encode(clicked(number)),
}
RARE = {
    "plain impressions": [CONFLUENT.encode(shown(1)), PLAIN.encode(versioned(2)), CONFLUENT.encode(versioned(3))],
    "Confluent impressions": [PLAIN.encode(shown(1)), PLAIN.encode(versioned(2)), CONFLUENT.encode(versioned(3))],
    "plain clicks": [CONFLUENT.encode(clicked(1)), PLAIN.encode(replace(clicked(2), impression_id="ü"))],
    "Confluent clicks": [PLAIN.encode(clicked(1)), CONFLUENT.encode(replace(clicked(2), impression_id="ü"))],
}


def read(values, kind):
    reader = CountingReader(CONFLUENT)
    return reader, reader.read([Sent(b"s", value) for value in values], kind, MOST_BYTES)


@pytest.mark.parametrize("index", [0, 250, 499], ids="at {}".format)
@pytest.mark.parametrize("form", COMMON)
def test_a_rare_form_makes_only_itself_read_one_by_one(form, index):
    for rare in RARE[form]:
        values = [COMMON[form](number) for number in range(499)]
        values.insert(index, rare)
        events = [CONFLUENT.decode(value) for value in values]
        reader, batch = read(values, type(events[0]))
        assert reader.single == 1
        assert batch.columns.ids == [event.impression_id for event in events]
        assert not batch.rejected


def test_lists_with_optional_fields_do_not_slow_down_the_others_though_they_are_more():
    values = [PLAIN.encode(versioned(number) if number % 5 < 3 else shown(number)) for number in range(500)]
    reader, batch = read(values, Impression)
    assert reader.single == 300
    assert batch.columns.ids == [f"i{number}" for number in range(500)]


def test_a_batch_without_any_known_header_is_rejected_record_by_record():
    reader, batch = read([b"{}"] * 100, Click)
    assert reader.single == len(batch.rejected) == 100
    assert batch.columns.ids == []


@pytest.mark.parametrize("form", COMMON)
def test_one_bad_record_in_a_hundred_slows_nothing_but_itself(form):
    good, other = COMMON[form], COMMON["plain impressions" if "clicks" in form else "plain clicks"]
    bad = [
        *(None, b"", b"\0", b'{"type": "click"}', bytes(10_000), b"\xff" * 10_000),
        *(good(1)[:-1], good(2)[:20], good(3) + b"\0", good(4)[:10] + b"\xff" * 90, other(5)),
        b"x" * (MOST_BYTES + (1 << 20)),
    ]
    values = [good(number) for number in range(99 * len(bad))]
    for number, value in enumerate(bad):
        values.insert(100 * number, value)
    kind = Click if "clicks" in form else Impression
    reader, batch = read(values, kind)
    assert list(batch.rejected) == list(range(0, 100 * len(bad), 100))
    assert reader.single <= len(bad)
    assert batch.columns.ids == [f"i{number}" for number in range(99 * len(bad))]
