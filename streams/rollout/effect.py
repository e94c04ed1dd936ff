"""What other parameters would do: two models of the same lists beside each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.bandits import Ranking
from learner.evaluate import BEYOND_END, Estimate, LoggedLists, Policy, ubm_ips


@dataclass(frozen=True, slots=True)
class ShownLists:
    """Lists that were shown, in columns: (n, K) item numbers (−1 beyond the end) and rewards, (n, K, d) contexts."""

    ids: NDArray[np.int64]  # by item number
    items: NDArray[np.int64]
    rewards: NDArray[np.float64]
    contexts: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class Effect:
    """How a new model differs from the one that serves, on lists that were shown."""

    lists: int
    earned: float  # clicks per list, as shown
    serving: Estimate  # clicks per list had the one that serves ordered the same items, by UBM-IPS
    new: Estimate
    reordered: float  # share of lists whose order would be another
    other_first: float  # share of lists whose first item would be another
    cosine: float | None  # of θ and θ; None where there is none
    moved: float | None  # ‖θ new − θ‖ / ‖θ‖
    most_moved: list[tuple[int, float, float]]  # feature, θ and θ new, of those that changed most


def effect_of(serving: Ranking, new: Ranking, shown: ShownLists, *, examination: NDArray[np.float64]) -> Effect:
    """Return what a new model would do to lists that were shown, each with its own items in another order.

    Items that were not shown are not judged: nobody saw them.
    """
    orders = [_orders(model, shown) for model in (serving, new)]
    log = LoggedLists.of(shown.items, shown.rewards, np.arange(len(shown.items)))
    rates = [ubm_ips(log, Policy.of(order), examination=examination) for order in orders]
    cosine = moved = None
    most: list[tuple[int, float, float]] = []
    if serving.dim and serving.dim == new.dim:
        before, after = serving.theta, new.theta
        lengths = float(np.linalg.norm(before)), float(np.linalg.norm(after))
        if all(lengths):
            cosine = float(before @ after / (lengths[0] * lengths[1]))
            moved = float(np.linalg.norm(after - before)) / lengths[0]
        by_change = np.argsort(-np.abs(after - before), kind="stable")[:3].tolist()
        most = [(row, float(before[row]), float(after[row])) for row in by_change if before[row] != after[row]]
    return Effect(
        lists=len(shown.items),
        earned=float(shown.rewards.sum(axis=1).mean()),
        serving=rates[0],
        new=rates[1],
        reordered=float((orders[0] != orders[1]).any(axis=1).mean()),
        other_first=float((orders[0][:, 0] != orders[1][:, 0]).mean()),
        cosine=cosine,
        moved=moved,
        most_moved=most,
    )


def _orders(model: Ranking, shown: ShownLists) -> NDArray[np.int64]:
    """Return the items of each list in the order in which a model would show them."""
    orders = np.full_like(shown.items, BEYOND_END)
    for number, items in enumerate(shown.items):
        size = int((items != BEYOND_END).sum())
        x = np.empty((0, 0), np.float32) if shown.contexts is None else shown.contexts[number, :size]
        orders[number, :size] = items[:size][model.rank(x, size=size, items=shown.ids[items[:size]])]
    return orders
