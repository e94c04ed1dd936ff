"""Where a partition's join goes on: by its commit, or a refusal with the ways out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from kafka import TopicPartition

from streams.broker import GroupOffset
from streams.join.commit import Commit
from streams.join.log_part import BadCommit

CHOICES = "earliest, latest or a time (ISO 8601, or milliseconds since 1970)"

Inputs = tuple[TopicPartition, TopicPartition]  # impressions and clicks of one partition
CommittedNow = Mapping[TopicPartition, GroupOffset | None]
Bounds = Mapping[TopicPartition, tuple[int, int]]


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


def commit_of(inputs: Inputs, committed: CommittedNow, bounds: Bounds, topic_ids: tuple[str, str]) -> Commit:
    """Return the commit of a partition that has begun, or refuse one that cannot be gone on from."""
    number = inputs[0].partition
    found = committed[inputs[0]], committed[inputs[1]]
    if found[0] is None or found[1] is None:
        missing = " and ".join(place.topic for place, entry in zip(inputs, found, strict=True) if entry is None)
        raise JoinRefused(
            f"partition {number} has begun before, and has no committed offset on {missing}; offsets expire a week "
            f"after a group has gone; {ways_out()}"
        )
    try:
        commit, made_for = Commit.decode(found[0], found[1])
    except BadCommit as error:
        raise JoinRefused(f"partition {number}: {error}; {ways_out()}") from error
    if made_for != topic_ids:
        raise made_anew(inputs)
    for place, part in zip(inputs, (commit.impressions, commit.clicks), strict=True):
        first, end = bounds[place]
        if part.place.offset < first:
            raise JoinRefused(
                f"partition {number}: {place.topic} begins at {first}, and events from {part.place.offset} are still "
                f"needed: they were deleted; keep the topic longer; {ways_out()}"
            )
        if part.processed > end:
            raise JoinRefused(
                f"partition {number}: {place.topic} ends at {end}, and was joined to {part.processed}: the log has "
                f"lost records; {ways_out()}"
            )
    return commit


def made_anew(inputs: Inputs) -> JoinRefused:
    """Return the refusal of a partition whose logs are others of the same name."""
    names = f"{inputs[0].topic} or {inputs[1].topic}"
    return JoinRefused(
        f"partition {inputs[0].partition}: {names} was made anew since it began (other topic id); {ways_out()}"
    )


def ways_out() -> str:
    """Return what somebody can do about a partition that is refused."""
    return (
        "the other partitions go on; to begin this one again, run once with --anew and --from: earliest joins all "
        "that the topics hold, and repeats what is in samples already; latest loses what was written before now; TIME "
        "loses what came before it and repeats what was joined after it"
    )
