"""The rules that impressions and clicks must keep, each declared once: a name, a test over columns, a sentence.

The writer, the ranking service and the join reject by these tables, and with these sentences. A click is judged twice:
by ``CLICK_RULES`` alone, then by ``LIST_RULES`` together with its list, which only the join knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from learner.browsing import MAX_POSITIONS
from learner.samples import NO_ITEM
from schemas.event_columns import ClickColumns, ImpressionColumns
from schemas.records import Click, Impression
from streams.events.acceptance import (
    CANDIDATES_BYTES,
    MAX_ID_BYTES,
    MAX_VERSION_BYTES,
    UNKNOWN,
    Acceptance,
    Limited,
    short,
)

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class ImpressionBatch:
    """Impressions that are judged together."""

    columns: ImpressionColumns
    stamps: Ints  # of their records, in ms
    accept: Acceptance
    events: Mapping[int, Impression]  # holds those with fields that columns lack; gives any other that is asked for
    buckets: Ints  # by number
    kept: Mask  # which have kept every rule so far

    def bucket(self, index: int) -> Limited:
        """Return the bucket of an impression that names a known one."""
        return self.accept.buckets[int(self.buckets[index])]


@dataclass(slots=True)
class ClickBatch:
    """Clicks that are judged together."""

    columns: ClickColumns
    stamps: Ints
    accept: Acceptance
    kept: Mask


@dataclass(slots=True)
class OfferedClicks:
    """Clicks with the lists that they are on, in the columns of one bucket."""

    position: Ints
    reward: NDArray[np.float64]
    session: NDArray[np.object_]
    list_session: NDArray[np.object_]
    list_size: NDArray[np.uint8]
    reward_scale: float  # of the bucket, by the rules of the lists
    kept: Mask


Batch = TypeVar("Batch", ImpressionBatch, ClickBatch, OfferedClicks)


@dataclass(frozen=True, slots=True)
class Rule(Generic[Batch]):
    """What an event must keep; an event that breaks several rules is rejected by the first of its table.

    Parameters
    ----------
    broken
        Which events of a batch break the rule, or None if none does; what it says of those that broke an earlier
        rule is ignored.
    sentence
        Why the event at an index is rejected, and what to do.
    of_bucket
        Whether it takes the limits of a bucket; a writer that knows no buckets does without.
    """

    name: str
    broken: Callable[[Batch], Mask | None]
    sentence: Callable[[Batch, int], str]
    of_bucket: bool = False


def judge_impressions(
    accept: Acceptance, columns: ImpressionColumns, stamps: Ints, events: Mapping[int, Impression]
) -> tuple[Ints, dict[int, str]]:
    """Return the bucket number of each impression, and why some are rejected, by index."""
    buckets = accept.numbers(columns.buckets)
    batch = ImpressionBatch(columns, stamps, accept, events, buckets, np.ones(len(buckets), np.bool_))
    rules = IMPRESSION_RULES if accept.buckets else [rule for rule in IMPRESSION_RULES if not rule.of_bucket]
    return buckets, _rejections(rules, batch)


def judge_clicks(accept: Acceptance, columns: ClickColumns, stamps: Ints) -> dict[int, str]:
    """Return why some clicks are rejected, by index."""
    return _rejections(CLICK_RULES, ClickBatch(columns, stamps, accept, np.ones(len(columns.ids), np.bool_)))


def judge_offers(clicks: OfferedClicks) -> dict[int, str]:
    """Return why some clicks are rejected by their lists, by index."""
    return _rejections(LIST_RULES, clicks)


def judge_events(accept: Acceptance, events: Sequence[Impression | Click], stamp_ms: int) -> dict[int, str]:
    """Return why some events, whose records would be written at ``stamp_ms``, are rejected, by index."""
    rejected: dict[int, str] = {}
    shown = {index: event for index, event in enumerate(events) if isinstance(event, Impression)}
    if shown:
        lists = list(shown.values())
        columns, stamps = ImpressionColumns.of(lists), np.full(len(lists), stamp_ms)
        _, reasons = judge_impressions(accept, columns, stamps, dict(enumerate(lists)))
        rejected |= _at(list(shown), reasons)
    clicked = {index: event for index, event in enumerate(events) if isinstance(event, Click)}
    if clicked:
        taps = ClickColumns.of(list(clicked.values()))
        rejected |= _at(list(clicked), judge_clicks(accept, taps, np.full(len(clicked), stamp_ms)))
    return rejected


def _at(indices: list[int], reasons: dict[int, str]) -> dict[int, str]:
    return {indices[index]: reason for index, reason in reasons.items()}


def _rejections(rules: Sequence[Rule[Batch]], batch: Batch) -> dict[int, str]:
    rejected: dict[int, str] = {}
    for rule in rules:
        broken = rule.broken(batch)
        if broken is not None and np.count_nonzero(broken):  # faster than any() for the few events of a request
            for index in np.flatnonzero(broken & batch.kept).tolist():
                rejected[index] = rule.sentence(batch, index)
            batch.kept = batch.kept & ~broken
    return dict(sorted(rejected.items()))


def _any_in_list(flags: Mask, sizes: Ints) -> Mask:
    """Return which lists have a flag set in one of their rows; every list has rows."""
    return np.logical_or.reduceat(flags, np.cumsum(sizes) - sizes)


def _long_ids(*columns: Sequence[str]) -> Mask | None:
    if all(max(map(len, ids)) <= MAX_ID_BYTES // 4 for ids in columns):  # a character takes up to 4 bytes
        return None
    return np.array([max(map(_size, ids)) > MAX_ID_BYTES for ids in zip(*columns, strict=True)])


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _has_no_item(batch: ImpressionBatch) -> Mask | None:
    items = batch.columns.items
    return _any_in_list(items == NO_ITEM, batch.columns.size) if items.min() == NO_ITEM else None


def _out_of_scale(batch: ImpressionBatch) -> Mask | None:
    values, limit = batch.columns.contexts, batch.accept.smallest_scale
    if not len(values) or (values.max() <= limit and values.min() >= -limit):  # false for NaN
        return None
    broken = np.zeros(len(batch.kept), np.bool_)
    for number in set(batch.buckets[batch.kept].tolist()):
        bucket = batch.accept.buckets[number]
        if not bucket.dim:
            continue
        members = np.flatnonzero((batch.buckets == number) & batch.kept)
        chosen = batch.columns.pick(members)
        values, limit = chosen.contexts, batch.accept.scales[number]
        if not (values.max() <= limit and values.min() >= -limit):  # true for NaN
            broken[members] = _any_in_list(~(np.abs(values) <= limit), chosen.size * bucket.dim)
    return broken


def _say_out_of_scale(batch: ImpressionBatch, index: int) -> str:
    contexts, bucket = batch.events[index].contexts_array, batch.bucket(index)
    row, column = np.argwhere(~(np.abs(contexts) <= batch.accept.scales[batch.buckets[index]]))[0]
    return (
        f"context {contexts[row, column]:g} of position {row + 1}, feature {column + 1} is not within "
        f"±{bucket.context_scale:g}, the context_scale of bucket {bucket.name!r}"
    )


def _optional(
    name: str, bad: Callable[[Impression], bool], sentence: Callable[[Impression], str]
) -> Rule[ImpressionBatch]:
    """Return a rule about optional fields, which only impressions that are read one by one have."""

    def broken(batch: ImpressionBatch) -> Mask | None:
        indices = [index for index, event in batch.events.items() if bad(event)]
        return np.isin(np.arange(len(batch.kept)), indices) if indices else None

    return Rule(name, broken, lambda batch, index: sentence(batch.events[index]))


def _candidate_bytes(impression: Impression) -> int:
    return len(impression.candidate_items) + len(impression.candidate_contexts)


def _bad_propensities(impression: Impression) -> Mask:
    drawn = impression.propensities_array
    return ~((drawn > 0) & (drawn <= 1))  # NaN is bad too


def _say_propensity(impression: Impression) -> str:
    row = int(np.flatnonzero(_bad_propensities(impression))[0])
    return f"propensity {impression.propensities_array[row]:g} of position {row + 1} is not above 0 and at most 1"


def _say_candidate(impression: Impression) -> str:
    contexts = impression.candidate_contexts_array
    row, column = np.argwhere(~np.isfinite(contexts))[0]
    return f"context {contexts[row, column]:g} of candidate {row + 1}, feature {column + 1} is not finite as float32"


def _say_ahead(verb: str, at_ms: int, stamp_ms: int, accept: Acceptance) -> str:
    ahead_s, most_s = (at_ms - stamp_ms) / 1000, accept.future_ms / 1000
    return f"{verb} {ahead_s:g} s after its own record; at most {most_s:g} s; check the producer's clock"


IMPRESSION_RULES: tuple[Rule[ImpressionBatch], ...] = (
    Rule(
        "known bucket",
        lambda batch: batch.buckets == UNKNOWN,
        lambda batch, index: (
            f"unknown bucket {short(batch.columns.buckets[index])!r}; configured are "
            + ", ".join(bucket.name for bucket in batch.accept.buckets)
        ),
        of_bucket=True,
    ),
    Rule(
        "list length",
        lambda batch: batch.columns.size > batch.accept.longest[batch.buckets],
        lambda batch, index: (
            f"a list of {batch.columns.size[index]} items is longer than the {batch.bucket(index).positions} "
            f"of bucket {batch.bucket(index).name!r}"
        ),
        of_bucket=True,
    ),
    Rule(
        "context length",
        lambda batch: batch.columns.context_bytes != batch.columns.size * batch.accept.row_bytes[batch.buckets],
        lambda batch, index: (
            f"contexts have {batch.columns.context_bytes[index] / (4 * batch.columns.size[index]):g} numbers an item; "
            f"bucket {batch.bucket(index).name!r} wants {batch.bucket(index).dim}"
        ),
        of_bucket=True,
    ),
    Rule(
        "id length",
        lambda batch: _long_ids(batch.columns.ids),
        lambda batch, index: f"an impression id of {_size(batch.columns.ids[index])} bytes; at most {MAX_ID_BYTES}",
    ),
    Rule(
        "session length",
        lambda batch: _long_ids(batch.columns.sessions),
        lambda batch, index: f"a session id of {_size(batch.columns.sessions[index])} bytes; at most {MAX_ID_BYTES}",
    ),
    Rule("item ids", _has_no_item, lambda batch, index: f"item {NO_ITEM}, which stands for no item; take another id"),
    Rule(
        "rendered positions",
        lambda batch: (batch.columns.rendered < 1) | (batch.columns.rendered > batch.columns.size),
        lambda batch, index: (
            f"{batch.columns.rendered[index]} positions rendered of a list of {batch.columns.size[index]}; "
            f"wanted 1 to {batch.columns.size[index]}"
        ),
    ),
    Rule(
        "time of display",
        lambda batch: batch.columns.shown_at > batch.stamps + batch.accept.future_ms,
        lambda batch, index: _say_ahead(
            "shown", int(batch.columns.shown_at[index]), int(batch.stamps[index]), batch.accept
        ),
    ),
    Rule("context scale", _out_of_scale, _say_out_of_scale, of_bucket=True),
    _optional(
        "split version length",
        lambda impression: _size(impression.split_version) > MAX_VERSION_BYTES,
        lambda impression: f"a split_version of {_size(impression.split_version)} bytes; at most {MAX_VERSION_BYTES}",
    ),
    _optional(
        "catalogue length",
        lambda impression: _size(impression.catalogue) > MAX_ID_BYTES,
        lambda impression: f"a catalogue of {_size(impression.catalogue)} bytes; at most {MAX_ID_BYTES}",
    ),
    _optional(
        "candidates size",
        lambda impression: _candidate_bytes(impression) > CANDIDATES_BYTES,
        lambda impression: (
            f"candidates of {_candidate_bytes(impression)} bytes; at most {CANDIDATES_BYTES}; "
            "log fewer, or name their catalogue"
        ),
    ),
    _optional(
        "propensities",
        lambda impression: bool(impression.propensities) and bool(_bad_propensities(impression).any()),
        _say_propensity,
    ),
    _optional(
        "candidate contexts",
        lambda impression: (
            bool(impression.candidate_contexts) and not np.isfinite(impression.candidate_contexts_array).all()
        ),
        _say_candidate,
    ),
)

CLICK_RULES: tuple[Rule[ClickBatch], ...] = (
    Rule(
        "id length",
        lambda batch: _long_ids(batch.columns.ids, batch.columns.sessions),
        lambda batch, index: (
            f"an id of {max(_size(batch.columns.ids[index]), _size(batch.columns.sessions[index]))} bytes; "
            f"at most {MAX_ID_BYTES}"
        ),
    ),
    Rule(
        "position",
        lambda batch: batch.columns.position < 1,
        lambda batch, index: f"position {batch.columns.position[index]}; positions start at 1",
    ),
    Rule(
        "last position",
        lambda batch: batch.columns.position > MAX_POSITIONS,
        lambda batch, index: f"position {batch.columns.position[index]}; no list has more than {MAX_POSITIONS}",
    ),
    Rule(
        "reward",
        lambda batch: ~((batch.columns.reward >= 0) & (batch.columns.reward < np.inf)),
        lambda batch, index: f"reward {batch.columns.reward[index]:g} is not a finite number of 0 or more",
    ),
    Rule(
        "time of click",
        lambda batch: batch.columns.clicked_at > batch.stamps + batch.accept.future_ms,
        lambda batch, index: _say_ahead(
            "clicked", int(batch.columns.clicked_at[index]), int(batch.stamps[index]), batch.accept
        ),
    ),
)

LIST_RULES: tuple[Rule[OfferedClicks], ...] = (
    Rule(
        "session of its list",
        lambda clicks: clicks.session != clicks.list_session,
        lambda clicks, index: "a click of another session than its list's; check the producer",
    ),
    Rule(
        "position on its list",
        lambda clicks: clicks.position > clicks.list_size,
        lambda clicks, index: (
            f"position {clicks.position[index]} is beyond the list of {clicks.list_size[index]}; check the producer"
        ),
    ),
    Rule(
        "reward scale",
        lambda clicks: clicks.reward > clicks.reward_scale,
        lambda clicks, index: (
            f"reward {clicks.reward[index]:g} is above {clicks.reward_scale:g}, the reward_scale of its bucket; "
            "check the producer"
        ),
    ),
)
