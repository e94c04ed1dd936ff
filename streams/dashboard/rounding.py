"""Numbers rounded to the digits that a reader can use."""

from __future__ import annotations

import math


def short(value: float | None, digits: int = 4) -> float | int | None:
    """Return a number with a few significant digits, None for what is no number.

    >>> short(0.123456), short(1234567.0), short(float("nan")), short(None)
    (0.1235, 1235000, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded
