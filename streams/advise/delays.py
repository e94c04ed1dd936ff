"""How late clicks arrive, and what each wait_s and lateness_s would make of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WAITS_S = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600)
CORRECTED, LOST = 0.05, 0.001  # shares of the clicks that the advised wait may correct and lose
LEAST = 500  # clicks, below which nothing is advised


@dataclass(frozen=True, slots=True)
class WaitRow:
    """What a wait would mean: lists are learned so much later, and so many clicks correct or miss them."""

    wait_s: float
    corrected: float  # share of clicks that arrive after the list has closed
    lost: float  # share after wait_s and the lateness in force, which count for nothing


@dataclass(frozen=True, slots=True)
class DelayAdvice:
    """Waits with their price, and the ones to take."""

    clicks: int
    wait_s: float
    lateness_s: float
    now: WaitRow
    advised: WaitRow
    rows: list[WaitRow]


def advise_delays(delays_s: NDArray[np.float64], *, wait_s: float, lateness_s: float) -> DelayAdvice | None:
    """Return what each wait would mean, and the shortest that corrects and loses few enough of the clicks.

    ``delays_s`` are the arrival delays of all clicks of lists that are old enough for their last click to have come;
    None: too few.
    """
    if len(delays_s) < LEAST:
        return None
    delays = np.sort(delays_s)
    wait = rounded_up(float(np.quantile(delays, 1 - CORRECTED)))
    horizon = max(rounded_up(float(np.quantile(delays, 1 - LOST))), wait)

    def row(wait_s: float, lateness_s: float) -> WaitRow:
        in_time = np.searchsorted(delays, [wait_s, wait_s + lateness_s], side="right")
        late, gone = (len(delays) - in_time) / len(delays)
        return WaitRow(wait_s, float(late), float(gone))

    return DelayAdvice(
        clicks=len(delays),
        wait_s=wait,
        lateness_s=round(horizon - wait, 3),
        now=row(wait_s, lateness_s),
        advised=row(wait, horizon - wait),
        rows=[row(each, lateness_s) for each in WAITS_S],
    )


def rounded_up(seconds: float) -> float:
    """Return a time in three digits, not less than it was.

    >>> rounded_up(123.4), rounded_up(0.98765)
    (124.0, 0.988)
    """
    if seconds <= 0:
        return 0.0
    step = 10.0 ** (np.floor(np.log10(seconds)) - 2)
    return float(round(np.ceil(seconds / step - 1e-9) * step, 6))
