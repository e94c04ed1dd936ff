"""Click rates of the demo's visits, with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from streams.charts import terminal_table
from streams.demo.crowd import RANDOM, Visit

BASELINE = "c2ucb"
HEADINGS = ("bucket", "lists", "CTR_sum", "CTR_set", "lift ± 95%", "regret in 1,000", "‖θ − θ*‖")
ORDER = (RANDOM, "pbm-ucb", "cm-linucb", "c2ucb", "dcm-linucb", "ubm-linucb")


@dataclass(frozen=True, slots=True)
class BucketScore:
    """What one bucket earned."""

    bucket: str
    lists: int
    ctr_sum: float
    ctr_set: float
    lift: float | None  # of CTR_sum against the baseline
    margin: float  # of the lift's 95% interval
    regret: float  # a thousand lists
    distance: float | None = None  # ‖θ − θ*‖


def scores(visits: Sequence[Visit]) -> list[BucketScore]:
    """Return the score of every bucket that has visits, in a fixed order."""
    clicks, regret = columns(visits)
    found = []
    for name in in_order(clicks):
        lift, margin = lift_of(clicks[name], clicks[BASELINE]) if BASELINE in clicks else (None, 0.0)
        mine = clicks[name]
        found.append(
            BucketScore(
                bucket=name,
                lists=len(mine),
                ctr_sum=float(mine.mean()),
                ctr_set=float((mine > 0).mean()),
                lift=None if name == BASELINE else lift,
                margin=margin,
                regret=1000 * float(regret[name].mean()),
            )
        )
    return found


def in_order(names: Iterable[str]) -> list[str]:
    """Return buckets of known names in their fixed order, and others behind them."""
    there = set(names)
    return [*(name for name in ORDER if name in there), *sorted(there.difference(ORDER))]


def columns(visits: Sequence[Visit]) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return the clicks and the regret of each bucket's visits, in the order of time."""
    clicks: dict[str, list[float]] = {}
    regret: dict[str, list[float]] = {}
    for visit in visits:
        clicks.setdefault(visit.bucket, []).append(visit.clicks)
        regret.setdefault(visit.bucket, []).append(visit.regret)
    return tuple({name: np.array(values) for name, values in each.items()} for each in (clicks, regret))  # type: ignore[return-value]


def lift_of(mine: NDArray[np.float64], base: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean(mine)/mean(base) − 1 and the half width of its 95% interval (delta method).

    >>> lift, margin = lift_of(np.array([2.0, 0.0] * 500), np.array([1.0, 0.0] * 500))
    >>> round(lift, 3), round(margin, 3)
    (1.0, 0.175)
    """
    if not base.any() or not mine.any():
        return 0.0, 0.0
    ratio = mine.mean() / base.mean()
    spread = mine.var() / len(mine) / mine.mean() ** 2 + base.var() / len(base) / base.mean() ** 2
    return float(ratio - 1), float(1.96 * ratio * np.sqrt(spread))


def table_of(found: Sequence[BucketScore]) -> Table:
    """Return the scores as a table."""
    caption = "regret: clicked lists lost by not knowing the true taste θ*"
    return terminal_table(HEADINGS, map(cells, found), caption=caption)


def cells(score: BucketScore) -> list[str]:
    """Return one row of the table as text."""
    none = "baseline" if score.bucket == BASELINE else "–"
    lift = none if score.lift is None else f"{score.lift:+.1%} ± {score.margin:.1%}"
    distance = "–" if score.distance is None else f"{score.distance:.3f}"
    rates = [f"{score.ctr_sum:.3f}", f"{score.ctr_set:.3f}", lift, f"{score.regret:.1f}", distance]
    return [score.bucket, f"{score.lists:,}", *rates]
