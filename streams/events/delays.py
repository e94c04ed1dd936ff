"""The delay of a click: from its list being shown to the first click on a position of it, never below 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(slots=True)
class ShownList:
    """When a list was shown, in which bucket, and which positions were clicked.

    >>> shown = ShownList(shown_at_ms=1000)
    >>> shown.is_first_click(1), shown.is_first_click(1), shown.is_first_click(2)
    (True, False, True)
    """

    shown_at_ms: int
    bucket: str = ""
    clicked: set[int] | None = None  # most lists are never clicked, and need no set

    def is_first_click(self, position: int) -> bool:
        """Note a click, and return whether it is the first on ``position``."""
        self.clicked = set() if self.clicked is None else self.clicked
        clicks = len(self.clicked)
        self.clicked.add(position)
        return len(self.clicked) > clicks


def first_click_delay_ms(shown_at_ms: ArrayLike, clicked_at_ms: ArrayLike) -> NDArray[np.int64]:
    """Return the delay of each first click; as clocks differ, one may be dated before its list, and counts as 0.

    >>> first_click_delay_ms([1000, 1000], [980, 2500]).tolist()
    [0, 1500]
    """
    delays_ms: NDArray[np.int64] = np.maximum(np.subtract(clicked_at_ms, shown_at_ms), 0)
    return delays_ms
