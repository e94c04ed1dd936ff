"""Commits of the first version, read as this one's: below their processed-to, events stay judged as they were."""

from __future__ import annotations

import json
from base64 import b85decode
from hashlib import sha256
from typing import Any
from zlib import decompress
from zlib import error as ZlibError

from schemas.json_text import parse_json
from streams.join.ledger import Ledger
from streams.join.log_part import (
    NEVER,
    BadCommit,
    FloorMark,
    LogPart,
    LogPosition,
    RuleEra,
    canonical_rules,
    rules_hash,
)

Entry = tuple[int, dict[str, Any]]  # a committed offset and its notes


def decode_first(impressions: Entry, clicks: Entry) -> dict[str, Any]:
    """Return the fields of a commit that the first version has made."""
    notes = impressions[1]
    accept, problem = _accept(clicks[1].get("accept", ""), notes["rules"])
    if notes["frozen"][1] > impressions[0]:
        problem = problem or "the settings changed"
    if problem:
        problem = (
            f"{problem} less than two horizons before the first version's last commit, whose way of dealing with that "
            "is gone; start that version once more, with the settings it had, until all its open lists are closed"
        )
    rules: dict[str, bytes] = {}
    first, second = (_part(offset, entry, accept, rules) for offset, entry in (impressions, clicks))
    return {
        "impressions": first,
        "clicks": second,
        "lists_from": first.place.offset,
        "emitted_before": max(NEVER, notes["emitted"]),
        "dismissed_before": first.floor,
        "ledger": Ledger(*notes["ledger"]),
        "rules": rules,
        "problem": problem,
    }


def _accept(packed: str, hashed: str) -> tuple[dict[str, Any], str]:
    """Return the rules in force, and what is wrong with them."""
    if not packed:
        return {"hash": hashed}, ""  # there was no room for them; the settings may have them still
    try:
        written, past = parse_json(decompress(b85decode(packed)))
        future_ms, buckets = parse_json(written)
    except ZlibError as error:
        raise BadCommit(f"commit metadata with rules that cannot be read: {error}") from error
    return {"future_ms": future_ms, "buckets": buckets}, "the settings changed" if past else ""


def _part(offset: int, entry: dict[str, Any], accept: dict[str, Any], rules: dict[str, bytes]) -> LogPart:
    eras, marks = [], []
    for start, horizon_ms, floor in entry["eras"]:
        content = canonical_rules(1, horizon_ms, accept)
        rules[rules_hash(content)] = content
        eras.append(RuleEra(start, rules_hash(content)))
        if floor > NEVER:
            marks.append(FloorMark(max(start, offset), floor))
    clock, floor, now = (max(NEVER, entry[name]) for name in ("clock", "floor", "now"))
    return LogPart(LogPosition(offset, clock, floor, clock), entry["to"], now, eras, marks)


def first_hash(accept: dict[str, Any]) -> str:
    """Return what the first version called these limits, for a commit that had no room for them."""
    return sha256(json.dumps([2, accept["future_ms"], accept["buckets"]]).encode()).hexdigest()[:16]
