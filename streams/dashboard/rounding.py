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
    if value == 0:
        return 0
    rounded = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded
