"""Numbers for what an estimator weighs: whole lists, prefixes, items at positions, or items.

A log and a policy are numbered together, so that equal numbers mean the same thing in the same context.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from learner.evaluate.lists import BEYOND_END, Floats, Ints, LoggedLists, Policy

Number = TypeVar("Number", bound=np.generic)
Unit: TypeAlias = Literal["lists", "prefixes", "positions", "items"]


@dataclass(frozen=True, slots=True)
class Units:
    """The numbers of what was logged (n, columns) and of what policies show, below ``count``."""

    logged: Ints
    shown: list[Ints]  # for each policy (m, columns)
    context: Ints  # of each logged list, as small numbers
    context_of: list[Ints]  # of each policy's lists, in the same numbers
    count: int
    contexts: int  # that were logged; a policy may know others, with higher numbers

    def masses(self, which: int, policy: Policy, seen: Floats | float = 1.0) -> Floats:
        """Return the chance of each unit under the policy with that number, times the chance that its row is seen."""
        shown = self.shown[which]
        return added(shown, np.broadcast_to(policy.chances[:, None] * seen, shown.shape), self.count)


def number(kind: Unit, log: LoggedLists, policy: Policy, logging: Policy | None = None) -> Units:
    """Return the units of ``kind``; but for items, which count wherever they stand, lists are cut to the policy's."""
    every: list[LoggedLists | Policy] = [log, policy, *([logging] if logging else [])]
    blocks = [lists.items if kind == "items" else cut(lists.items, policy.positions, BEYOND_END) for lists in every]
    ends = np.cumsum([len(block) for block in blocks])[:-1]
    names = np.unique(log.contexts)
    contexts = context_numbers(names, np.concatenate([lists.contexts for lists in every]))
    columns = max(block.shape[1] for block in blocks)
    coded, count = _codes(kind, contexts, np.vstack([cut(block, columns, BEYOND_END) for block in blocks]))
    parts = [
        part[:, -1:] if kind == "lists" else part[:, : block.shape[1]]
        for part, block in zip(np.split(coded, ends), blocks, strict=True)
    ]
    context, *context_of = np.split(contexts, ends)
    return Units(parts[0], parts[1:], context, context_of, count, len(names))


def answered(kind: Unit, log: LoggedLists, policy: Policy, logging: Policy | None) -> Units:
    """Return the units of ``kind``, or refuse a policy that is silent in a context that was logged."""
    units = number(kind, log, policy, logging)
    for context_of in units.context_of:
        known = np.zeros(units.contexts + 1, dtype=np.bool_)
        known[context_of] = True
        if not known[:-1].all():
            at = int(np.argmin(known[units.context]))
            raise ValueError(f"list {at} was logged in context {log.contexts[at]}, for which a policy has no list")
    return units


def support(log: LoggedLists, policy: Policy, over: Unit) -> Floats:
    """Return, for each logged list, the share of what the policy shows in its context that was ever logged there.

    >>> log = LoggedLists.of([[1, 2], [1, 2], [5, 6]], [[0, 0], [0, 0], [0, 0]], contexts=[0, 0, 1])
    >>> support(log, Policy.of([[2, 1], [5, 7]]), "items")
    array([1. , 1. , 0.5])
    """
    units = number(over, log, policy)
    logged = np.zeros(units.count, dtype=np.bool_)
    logged[units.logged] = True
    shown, context = units.shown[0], units.context_of[0]
    mass = np.broadcast_to(policy.chances[:, None], shown.shape)
    if over == "items":
        mass = mass * (policy.items != BEYOND_END)
    whole, met = (
        added(context, np.asarray(part.sum(axis=1)), units.contexts + 1) for part in (mass, mass * logged[shown])
    )
    return np.divide(met, whole, out=np.zeros(whole.shape), where=whole > 0)[units.context]


def context_numbers(logged: Ints, contexts: Ints) -> Ints:
    """Return the index of each context among those logged, which ascend; contexts that were not logged share the next.

    >>> context_numbers(np.array([3, 7]), np.array([7, 5, 3, 9]))
    array([1, 2, 0, 2])
    """
    number = np.searchsorted(logged, contexts)
    known = number < len(logged)
    known[known] = logged[number[known]] == contexts[known]
    return np.where(known, number, len(logged))


def added(by: Ints, values: Floats, groups: int) -> Floats:
    """Return the sum of ``values`` in each of ``groups``; ``by`` has the shape of ``values``.

    >>> added(np.array([[0, 2], [2, 1]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 3)
    array([1., 4., 5.])
    """
    return np.bincount(by.reshape(-1), values.reshape(-1), groups).astype(np.float64, copy=False)


def _codes(kind: Unit, context: Ints, rows: Ints) -> tuple[Ints, int]:
    if kind in ("items", "positions"):
        columns = [np.broadcast_to(context[:, None], rows.shape), rows]
        if kind == "positions":
            columns.append(np.broadcast_to(np.arange(rows.shape[1]), rows.shape))
        code = joint(*(column.reshape(-1) for column in columns))
        return code.reshape(rows.shape), int(code.max()) + 1
    coded = np.empty(rows.shape, dtype=np.int64)
    above, offset = context, 0
    for k in range(rows.shape[1]):
        above = joint(above, rows[:, k])
        coded[:, k] = above + offset
        offset = int(coded[:, k].max()) + 1
    return coded, offset


def joint(first: Ints, *others: Ints) -> Ints:
    """Return one small number for each distinct combination.

    >>> joint(np.array([5, 5, 9]), np.array([1, 2, 1]))
    array([0, 1, 2])
    """
    code = np.unique(first, return_inverse=True)[1]
    for other in others:
        values, index = np.unique(other, return_inverse=True)
        code = np.unique(code * len(values) + index, return_inverse=True)[1]
    return np.asarray(code, dtype=np.int64)


def cut(rows: NDArray[Number], columns: int, beyond: float) -> NDArray[Number]:
    """Return rows of exactly so many columns, shorter ones filled up with ``beyond``."""
    if rows.shape[1] >= columns:
        return rows[:, :columns]
    return np.pad(rows, ((0, 0), (0, columns - rows.shape[1])), constant_values=beyond)
