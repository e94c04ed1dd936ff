"""What a shadow would earn, judged by UBM-IPS on the lists of its host, beside what the host has earned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from learner.evaluate import ctr_set, ctr_sum
from schemas.records import Snapshot
from streams.offline import LogError, Logs, judge, replay
from streams.settings import Bucket


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """A shadow's estimated rates with their 95% bounds, of a policy as it stands now, and its host's own rates."""

    bucket: str
    host: str
    estimator: str
    lists: int  # of the host
    rates: dict[str, tuple[float, float, float]]  # by metric: value, low, high
    host_rates: dict[str, float]
    notes: list[str]  # what to beware of, or why there is no estimate


def judge_shadow(logs: Logs, snapshot: Snapshot, bucket: Bucket, host: Bucket) -> ShadowResult:
    """Return what the shadow's snapshot would have earned from the users of its host.

    Where an item's vector differs between lists, only a log of the candidates can tell, by ubm-linear.
    """
    table = next((one.examination for one in (bucket, host) if _is_table(one)), None)
    found = replay(logs, snapshot)
    estimator = "ubm-linear" if found.personal and found.requests is not None else "ubm-ips"
    own = {"sum": ctr_sum(logs.clicks), "set": ctr_set(logs.clicks)}
    try:
        judged = judge(logs, found, estimator=estimator, examination=table)
    except LogError as error:
        return ShadowResult(bucket.name, host.name, estimator, len(logs), {}, own, [str(error)])
    rates = {str(one.metric): (one.value, one.low, one.high) for one in judged.estimates}
    notes = [*judged.warnings, *([found.assumes] if found.assumes else [])]
    return ShadowResult(bucket.name, host.name, estimator, len(logs), rates, own, notes)


def _is_table(bucket: Bucket) -> bool:
    return bucket.examination is not None and np.ndim(bucket.examination) == 2


def shadows_of(buckets: Mapping[str, Bucket]) -> dict[str, str]:
    """Return the shadows among buckets, each with its host."""
    return {name: bucket.host for name, bucket in buckets.items() if bucket.host is not None}


def shadow_text(one: ShadowResult) -> str:
    """Return what is known of a shadow, in a sentence."""
    if not one.rates:
        return f"shadow {one.bucket} of {one.host}: cannot be judged; {'; '.join(one.notes)}"
    value, low, high = one.rates["sum"]
    earned = one.host_rates["sum"]
    is_sure = "more than" if low > earned else "less than" if high < earned else "about as much as"
    return (
        f"shadow {one.bucket} of {one.host}: would earn a CTR_sum of {value:.4f} ({low:.4f} to {high:.4f}, "
        f"{one.estimator} on {one.lists:,} lists), {is_sure} its host's {earned:.4f}"
    )
