"""What each logged list was chosen from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CandidateLists:
    """The candidates of each list, end to end, those shown included."""

    items: NDArray[np.int64]  # numbers of items, as those of the lists
    ends: NDArray[np.int64]  # (n + 1) where those of each list begin, and where the last ones end
    contexts: NDArray[np.float32] | None  # a vector for each

    @classmethod
    def of(
        cls, items: NDArray[np.int64], sizes: Iterable[int], contexts: Sequence[NDArray[np.float32]] | None
    ) -> CandidateLists:
        """Return the candidates of lists with these many each.

        >>> CandidateLists.of(np.array([4, 7, 7]), [2, 1], None).row(1)
        slice(2, 3, None)
        """
        ends = np.concatenate(([0], np.cumsum(list(sizes), dtype=np.int64)))
        return cls(items, ends, None if contexts is None else np.concatenate(contexts))

    def row(self, number: int) -> slice:
        """Return where the candidates of a list are."""
        return slice(int(self.ends[number]), int(self.ends[number + 1]))

    @property
    def list_of(self) -> NDArray[np.int64]:
        """The number of the list that each candidate belongs to."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))
