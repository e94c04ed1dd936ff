"""Lists that were logged and lists that a policy shows, in columns: what every estimator takes; their click rates."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.browsing import MAX_POSITIONS, previous_click
from learner.samples import refuse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BEYOND_END = -1  # the item of a position beyond a list's end
EVEN = 1e-9  # how far chances may be from adding up to 1


@dataclass(frozen=True, slots=True)
class LoggedLists:
    """Lists that were shown by the logging policy π, and what they earned."""

    items: Ints  # (n, K) numbers, −1 beyond a list's end; an item means something only together with its context
    rewards: Floats  # (n, K), 0 for no click
    contexts: Ints  # (n,) the number of each list's context X
    chances: Floats | None = None  # (n, K) the chance that π put the item here, given those above; None: not logged
    position_chances: Floats | None = None  # (n, K) the same, whatever stood above

    @classmethod
    def of(
        cls,
        items: ArrayLike,
        rewards: ArrayLike,
        contexts: ArrayLike | None = None,
        *,
        chances: ArrayLike | None = None,
        position_chances: ArrayLike | None = None,
    ) -> Self:
        """Return a checked log, of one context if none are given; a ``ValueError`` names the field and the value."""
        shown = _items(items)
        earned = _floats("rewards", rewards, shown)
        _refuse("rewards", earned, ~((earned >= 0) & (earned < np.inf)), "a reward is a finite number of at least 0")
        _refuse("rewards", earned, (earned > 0) & (shown == BEYOND_END), "there is no item, so nothing can be earned")
        logged = [
            None if given is None else _chances(name, given, shown)
            for name, given in (("chances", chances), ("position_chances", position_chances))
        ]
        return cls(shown, earned, _contexts(contexts, len(shown)), *logged)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def positions(self) -> int:
        """Length K of the longest list."""
        return int(self.items.shape[1])

    @property
    def clicks(self) -> Floats:
        """1 where a row earned anything, else 0."""
        return (self.rewards > 0).astype(np.float64)

    @property
    def last_clicks(self) -> Ints:
        """k′ of each row: the last position above it with a reward, or 0."""
        return previous_click(self.rewards)

    @property
    def first_rewards(self) -> Floats:
        """1 where a list was clicked for the first time, else 0; a row of these adds up to F(S)."""
        return np.asarray((self.rewards > 0) & (self.last_clicks == 0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Policy:
    """The lists that a policy shows in each context, and how likely each of them is there.

    >>> Policy.of([[3, 1], [2, 1]]).contexts  # deterministic: one list in each context
    array([0, 1])
    >>> Policy.of([[3, 1], [1, 3]], contexts=[0, 0], chances=[0.9, 0.1]).chances  # one of two lists in context 0
    array([0.9, 0.1])
    """

    items: Ints  # (m, L) numbers, −1 beyond a list's end
    contexts: Ints  # (m,) of each list
    chances: Floats  # (m,) which add up to 1 in each context

    @classmethod
    def of(cls, items: ArrayLike, contexts: ArrayLike | None = None, chances: ArrayLike | None = None) -> Self:
        """Return a checked policy; without ``contexts`` there is one list for each context 0, 1, 2, …"""
        shown = _items(items)
        where = np.arange(len(shown)) if contexts is None else _contexts(contexts, len(shown))
        chance = np.ones(len(shown)) if chances is None else np.array(chances, dtype=np.float64)
        if chance.shape != where.shape:
            raise ValueError(f"chances must be {len(shown)} numbers, one per list, got shape {chance.shape}")
        _refuse("chances", chance, ~((chance >= 0) & (chance <= 1)), "a chance lies in [0, 1]")
        names, group = np.unique(where, return_inverse=True)
        total = np.bincount(group, chance)
        if np.any(uneven := np.abs(total - 1) > EVEN * len(shown)):
            at = int(np.argmax(uneven))
            raise ValueError(f"the chances of the lists in context {names[at]} add up to {total[at]:.6g}, not to 1")
        return cls(shown, where, chance)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def positions(self) -> int:
        """Length L of the longest list."""
        return int(self.items.shape[1])


def ctr_sum(rewards: ArrayLike) -> float:
    """Return what a list earns on average, all its positions together; ``rewards`` are (lists, positions).

    >>> ctr_sum([[1, 0, 1], [0, 0, 0]])
    1.0
    """
    return float(np.mean(np.sum(_rates(rewards), axis=1)))


def ctr_set(rewards: ArrayLike) -> float:
    """Return the share of lists that earned anything, E[F(S)].

    >>> ctr_set([[1, 0, 1], [0, 0, 0]])
    0.5
    """
    return float(np.mean(np.any(_rates(rewards) > 0, axis=1)))


def _rates(rewards: ArrayLike) -> Floats:
    rows = np.asarray(rewards, dtype=np.float64)
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"rewards must be (lists, positions) with at least one list, got shape {rows.shape}")
    return rows


def _items(items: ArrayLike) -> Ints:
    shown = np.asarray(items)
    if shown.ndim != 2 or shown.dtype.kind not in "iu" or not (shown.shape[0] and 1 <= shown.shape[1] <= MAX_POSITIONS):
        raise ValueError(
            f"items must be whole numbers, (lists, positions), at least one list of 1 to {MAX_POSITIONS} positions; "
            f"got {shown.dtype} of shape {shown.shape}"
        )
    _refuse("items", shown, shown < BEYOND_END, "an item is a number of at least 0, or −1 beyond the end of its list")
    _refuse("items", shown[:, :1], shown[:, :1] == BEYOND_END, "a list has at least one item")
    after = (shown[:, 1:] != BEYOND_END) & (shown[:, :-1] == BEYOND_END)
    _refuse("items", shown[:, 1:], after, "after the end of a list (−1) there are no more items")
    return shown.astype(np.int64, copy=False)


def _floats(name: str, values: ArrayLike, shown: Ints) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    if rows.shape != shown.shape:
        raise ValueError(f"{name} must have the shape of items, {shown.shape}, got {rows.shape}")
    return rows


def _chances(name: str, values: ArrayLike, shown: Ints) -> Floats:
    chances = np.where(shown == BEYOND_END, 1.0, _floats(name, values, shown))
    _refuse(name, chances, ~((chances > 0) & (chances <= 1)), "what was logged had a chance above 0 and at most 1")
    return chances


def _contexts(contexts: ArrayLike | None, lists: int) -> Ints:
    if contexts is None:
        return np.zeros(lists, dtype=np.int64)
    numbers = np.asarray(contexts)
    if numbers.shape != (lists,) or numbers.dtype.kind not in "iu":
        raise ValueError(f"contexts must be {lists} whole numbers, got {numbers.dtype} of shape {numbers.shape}")
    return numbers.astype(np.int64, copy=False)


def _refuse(name: str, values: NDArray[Any], bad: NDArray[np.bool_], wanted: str) -> None:
    if np.any(bad):
        refuse(name, values, bad, wanted)
