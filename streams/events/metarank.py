"""Metarank's ranking and interaction events as impressions and clicks, so that its users can move over."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.events.acceptance import Limited
from streams.events.events import Event, click_of, impression_of

MOST_RANKINGS = 50_000  # whose order is remembered, since an interaction names an item and no position

Contexts = Callable[[NDArray[np.int64], str], NDArray[np.float64]]


class MetarankEvents:
    """Translates events one by one, in their order; what it cannot use raises ValueError with the reason.

    A ranking becomes the impression of its first K items in the bucket of its user; an interaction becomes a click on
    its item's position in the ranking that it names, which must have come before, among the last 50,000. Contexts come
    from ``contexts_of``, as a catalogue makes them for a user; without it, they are the numbers among an item's fields,
    by their names.
    """

    def __init__(self, bucket_of: Callable[[str], Limited], *, contexts_of: Contexts | None = None) -> None:
        self._bucket_of, self._contexts_of = bucket_of, contexts_of
        self._rankings: OrderedDict[str, tuple[str, list[int]]] = OrderedDict()  # session, and items from the top

    def event_of(self, body: dict[str, Any]) -> Event | None:
        """Return the event; None for an item's or a user's metadata, and for an interaction without a ranking."""
        kind = body.get("event")
        if kind == "ranking":
            return self._impression(body)
        if kind == "interaction" and body.get("ranking"):
            return self._click(body)
        if kind in ("item", "user", "interaction"):
            return None
        raise ValueError(f'event must be "ranking", "interaction", "item" or "user", got {kind!r}')

    def _impression(self, record: dict[str, Any]) -> Event:
        listed = record.get("items")
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed) or not listed:
            raise ValueError('a ranking has items such as [{"id": "item3"}]')
        ranking, user = _text(record, "id"), record.get("user") or ""
        bucket = self._bucket_of(user or ranking)
        listed = listed[: bucket.positions]
        items = [item_number(_text(item, "id")) for item in listed]
        contexts = None
        if bucket.dim:
            made = self._contexts_of
            contexts = made(np.array(items), user) if made is not None else _numbers(listed)
        session = record.get("session") or user or ranking
        shown = impression_of(
            items,
            contexts,
            impression_id=ranking,
            session_id=session,
            bucket=bucket.name,
            user_id=user,
            shown_at_ms=timestamp_ms(record.get("timestamp")),
        )
        self._rankings[ranking] = session, items
        self._rankings.move_to_end(ranking)
        if len(self._rankings) > MOST_RANKINGS:
            self._rankings.popitem(last=False)
        return shown

    def _click(self, record: dict[str, Any]) -> Event:
        ranking = _text(record, "ranking")
        if ranking not in self._rankings:
            raise ValueError(f"ranking {ranking[:80]!r} did not come before, or too many came since")
        session, items = self._rankings[ranking]
        item = item_number(_text(record, "item"))
        if item not in items:
            raise ValueError(f"item {record['item'][:80]!r} is not on the list that was shown")
        return click_of(
            impression_id=ranking,
            session_id=session,
            position=items.index(item) + 1,
            clicked_at_ms=timestamp_ms(record.get("timestamp")),
        )


def item_number(name: str) -> int:
    """Return the id of an item with a name: a whole number that it spells, else the first 63 bits of its hash.

    >>> item_number("42"), item_number("item3")
    (42, 1427347408689411011)
    """
    if name.isdecimal() and name.isascii() and len(name) <= 18:
        return int(name)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def timestamp_ms(value: object) -> int:
    """Return milliseconds since 1970 of a number, of its digits, or of an ISO 8601 time with a zone.

    >>> timestamp_ms("1599391467000"), timestamp_ms("2022-06-22T11:21:39Z")
    (1599391467000, 1655896899000)
    """
    if isinstance(value, str):
        if value.isdecimal() and len(value) <= 18:
            return int(value)
        at = datetime.fromisoformat(value)
        if at.tzinfo is not None:
            return int(at.timestamp() * 1000)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return int(value)
    raise ValueError(f"timestamp must be milliseconds since 1970, or ISO 8601 with a zone; got {value!r}")


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{record.get('event', 'item')} without {key}, which must be text")
    return value


def _numbers(listed: list[dict[str, Any]]) -> NDArray[np.float64]:
    rows = []
    for item in listed:
        fields = {field["name"]: field.get("value") for field in item.get("fields", ()) if "name" in field}
        fields |= {"relevancy": item["relevancy"]} if "relevancy" in item else {}
        spread = [value if isinstance(value, list) else [value] for _, value in sorted(fields.items())]
        rows.append([float(number) for values in spread for number in values if isinstance(number, (bool, int, float))])
    if len({len(row) for row in rows}) != 1:
        raise ValueError("items of one ranking must have the same number of numbers among their fields")
    return np.array(rows)
