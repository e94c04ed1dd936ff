"""Where each partition's join begins: at its committed offsets, or where --from says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kafka import TopicPartition

from streams.broker import GroupConsumer
from streams.join.commit import BadCommit, Commit

CHOICES = "earliest, latest or a time (ISO 8601, or milliseconds since 1970)"


class JoinRefused(RuntimeError):
    """A start that would lose or repeat events without anybody having decided so."""


def parse_start(start: str | None) -> str | int | None:
    """Return ``start`` as earliest, latest or milliseconds since 1970.

    >>> parse_start("earliest"), parse_start("1700000000000"), parse_start("2023-11-14T22:13:20Z")
    ('earliest', 1700000000000, 1700000000000)
    """
    if start is None or start in ("earliest", "latest"):
        return start
    if start.isdecimal():
        return int(start)
    try:
        at = datetime.fromisoformat(start)
    except ValueError as error:
        raise JoinRefused(f"--from {start!r}: wanted {CHOICES}") from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def resume_from(
    consumer: GroupConsumer,
    inputs: tuple[TopicPartition, TopicPartition],
    committed: tuple[Any, Any],
    topic_ids: tuple[str, str],
    *,
    rules: str,
    start: str | int | None,
) -> tuple[Commit, str]:
    """Return the commit to go on from and how it was found; refuse if there is none and nobody said where to begin."""
    why = f"partition {inputs[0].partition} has no committed offset (they expire a week after a group has gone)"
    if None not in committed:
        try:
            commit, made_for = Commit.decode(*committed)
            if made_for == topic_ids:
                return commit, "its commit"
            why = f"{inputs[0].topic} or {inputs[1].topic} was made anew since the last commit (other topic id)"
        except BadCommit as error:
            why = str(error)
    if start is None:
        raise JoinRefused(
            f"{why}; say where to begin: --from earliest joins all that the topics hold, and repeats what is in "
            "samples already; --from latest loses what was written before now; --from TIME loses what came before it "
            "and repeats what was joined after it"
        )
    offsets = _offsets(consumer, inputs, start)
    return Commit.beginning(
        rules, impressions=offsets[inputs[0]], clicks=offsets[inputs[1]]
    ), f"--from {start}, as {why}"


def _offsets(
    consumer: GroupConsumer, inputs: tuple[TopicPartition, TopicPartition], start: str | int
) -> Mapping[TopicPartition, int]:
    bounds = consumer.bounds(inputs)
    if isinstance(start, str):
        return {place: bounds[place][start == "latest"] for place in inputs}
    found = consumer.offsets_at(inputs, start)
    return {place: bounds[place][1] if (at := found[place]) is None else at for place in inputs}
