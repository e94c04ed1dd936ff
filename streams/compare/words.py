"""Verdicts of a comparison in words."""

from __future__ import annotations

from datetime import UTC, datetime

from streams.compare.comparison import BucketComparison, BucketLift, BucketResult
from streams.compare.shadows import shadow_text

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def verdict(one: BucketResult, comparison: BucketComparison) -> str:
    """Return what is known of a bucket against the control, in a sentence."""
    if one.lifts is None:
        return f"{one.bucket} is the control"
    lift = one.lifts[comparison.metric]
    against = f"{one.bucket} against {comparison.control}:"
    if lift.estimate is None or lift.high is None:
        return f"{against} too few users and clicks to say anything"
    if not comparison.believed:
        return f"{against} not to be believed, see the alarms"
    if lift.decided_since_ms is None:
        return f"{against} {undecided(lift)}"
    ahead = lift.low > 0
    near, far = sorted((abs(lift.low), abs(lift.high)))
    where = "ahead of" if ahead else "behind"
    return (
        f"{one.bucket} is {where} {comparison.control} by {near:.1%} to {far:.1%}; decided since "
        f"{moment(lift.decided_since_ms)}"
    )


def sentences(comparison: BucketComparison) -> list[str]:
    """Return the verdicts on all buckets but the control, and apart from them what shadows would earn."""
    served = [verdict(one, comparison) for one in comparison.buckets if one.lifts is not None]
    return served + [shadow_text(one) for one in comparison.shadows]


def undecided(lift: BucketLift) -> str:
    """Return how long a decision may still take."""
    if lift.more_s is None:
        return "undecided; nearly alike, so no end can be foretold"
    return f"undecided; at this rate about {duration(lift.more_s)} more"


def duration(seconds: float) -> str:
    """Return a time that people can plan with.

    >>> duration(100), duration(4000), duration(3 * 86_400)
    ('2 minutes', '1.1 hours', '3 days')
    """
    for unit, name in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= unit:
            amount = seconds / unit
            text = f"{amount:.0f}" if amount >= 3 else f"{amount:.1f}".removesuffix(".0")
            return f"{text} {name[:-1] if text == '1' else name}"
    minutes = max(1, round(seconds / MINUTE))
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


def moment(at_ms: int) -> str:
    """Return a time as one would say it.

    >>> moment(1_700_000_000_000)
    'Tuesday 2023-11-14 22:13 UTC'
    """
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%A %Y-%m-%d %H:%M} UTC"


def checks(comparison: BucketComparison, *, losses_known: bool = True) -> list[tuple[bool, str]]:
    """Return what the checks say, and whether it is an alarm; who reads no lost clicks says nothing of them."""
    joined = [_join_rate(comparison)] if losses_known else []
    return [_sample_ratio(comparison), *joined, *_stops(comparison)]


def _sample_ratio(comparison: BucketComparison) -> tuple[bool, str]:
    found = comparison.sample_ratio
    twice = f"; {found['users_in_two_buckets']:,} users met two buckets" if found["users_in_two_buckets"] else ""
    if not found["tested"]:
        return False, f"sample ratio: not tested, {found['why']}{twice}"
    if not found["alarm"]:
        return False, f"sample ratio: users come as the split means it{twice}"
    shares = ", ".join(f"{name} {found['found'][name]:.2%} of {found['expected'][name]:.2%}" for name in found["found"])
    return True, (
        f"SAMPLE RATIO: the split does not give each bucket its share of users since {moment(found['since_ms'])}: "
        f"{shares}{twice}. No lift can be believed; look for what drops or moves users (unlearn drops them, too)"
    )


def _join_rate(comparison: BucketComparison) -> tuple[bool, str]:
    found = comparison.join_rate
    if not found["alarm"]:
        most = max(found["lost"].values(), default=0.0)
        return False, f"join rate: no bucket loses more clicks than the others (at most {most:.2%})"
    worst = "; ".join(
        f"{name} loses {found['lost'][name]:.2%} of its clicks, the others {found['others'][name]:.2%}, noticed "
        f"{moment(since)}"
        for name, since in found["buckets"].items()
    )
    return True, f"JOIN RATE: {worst}. Its lift is too low by as much; glimpse dead-letters and glimpse advise say why"


def _stops(comparison: BucketComparison) -> list[tuple[bool, str]]:
    return [
        (True, f"GUARDRAIL: {name} is certainly worse than {comparison.control} by more than allowed; set its weight 0")
        for name in comparison.stops
    ]
