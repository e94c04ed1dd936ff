"""Checks that a lift must pass before it is believed: the split's shares of users, and each bucket's lost clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner.compare import RatioMoments, loss_gaps, moments_over_time, ratio_evidence
from streams.compare.columns import CLICKS, MINUTE_MS, ArmSums
from streams.compare.look import Look


def sample_ratio(look: Look, arms: Mapping[str, ArmSums], *, per_user: bool) -> dict[str, Any]:
    """Return what the counts of users say of the split."""
    over, minutes, choice = look.over, look.minutes, look.choice
    tested = [name for name in arms if choice.shares.get(name, 0) > 0]
    everybody = np.concatenate([np.unique(found.rows.user) for found in arms.values()])
    twice = len(everybody) - len(np.unique(everybody))
    if not per_user or len(tested) < 2:
        why = "the samples tell no users" if not per_user else "the shares of the split are not known"
        return {"tested": False, "why": why, "alarm": False, "users_in_two_buckets": twice if per_user else 0}
    total = sum(choice.shares[name] for name in tested)
    counts = np.stack([over[name][0].users for name in tested], axis=-1)
    evidence = ratio_evidence(counts, [choice.shares[name] / total for name in tested])
    alarm = evidence >= -np.log(choice.alarm_alpha)
    return {
        "tested": True,
        "alarm": bool(alarm.any()),
        "since_ms": int(minutes[alarm.argmax()] + 1) * MINUTE_MS if alarm.any() else None,
        "expected": {name: choice.shares[name] / total for name in tested},
        "found": {name: float(counts[-1, k] / counts[-1].sum()) for k, name in enumerate(tested)},
        "users_in_two_buckets": twice,
    }


def join_rate(look: Look, arms: Mapping[str, ArmSums], lost: Mapping[str, ArmSums | None]) -> dict[str, Any]:
    """Return whether one bucket loses more of its clicks than the others."""
    minutes = look.minutes
    moments = [_click_moments(found, lost[name], minutes) for name, found in arms.items()]
    if len(moments) < 2:
        return {"alarm": False, "lost": {name: float(one.rate[-1]) for name, one in zip(arms, moments, strict=True)}}
    gaps = dict(zip(arms, loss_gaps(moments, alpha=look.choice.alarm_alpha), strict=True))
    alarms = {name: gap.alarm for name, gap in gaps.items() if gap.alarm.any()}
    return {
        "alarm": bool(alarms),
        "buckets": {name: int(minutes[alarm.argmax()] + 1) * MINUTE_MS for name, alarm in alarms.items()},
        "lost": {name: float(gap.rate[-1]) for name, gap in gaps.items()},
        "others": {name: float(gap.others[-1]) for name, gap in gaps.items()},
    }


def _click_moments(found: ArmSums, lost: ArmSums | None, minutes: NDArray[np.int64]) -> RatioMoments:
    """Return moments whose size is all clicks and whose total is those lost."""
    rows, gone = found.rows, (ArmSums(fields=1) if lost is None else lost).settle()
    clicked = rows.amounts[:, CLICKS]
    both = ArmSums(fields=2)
    both.add(rows.user, rows.minute * MINUTE_MS, np.stack((clicked, np.zeros_like(clicked)), axis=1))
    both.add(gone.user, gone.minute * MINUTE_MS, np.repeat(gone.amounts, 2, axis=1))
    both.settle()
    inside = np.isin(both.rows.minute, minutes)
    rows = both.rows
    when = np.searchsorted(minutes, rows.minute[inside])
    size, total = rows.amounts[inside].T
    return moments_over_time(rows.user[inside], when, size, total, bins=len(minutes))
