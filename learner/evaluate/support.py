"""Common support of a log and a policy: how much of what the policy shows was ever logged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learner.evaluate.lists import NOTHING, LoggedLists, Policy
from learner.evaluate.units import Unit, added, number


def support(log: LoggedLists, policy: Policy, over: Unit) -> NDArray[np.float64]:
    """Return, for each logged list, the share of what the policy shows in its context that was ever logged there.

    >>> log = LoggedLists.of([[1, 2], [1, 2], [5, 6]], [[0, 0], [0, 0], [0, 0]], contexts=[0, 0, 1])
    >>> support(log, Policy.of([[2, 1], [5, 7]]), "items")
    array([1. , 1. , 0.5])
    """
    units = number(over, log, policy, positions=policy.positions)
    logged = np.zeros(units.count, dtype=np.bool_)
    logged[units.logged] = True
    shown, context = units.shown[0], units.context_of[0]
    mass = np.broadcast_to(policy.chances[:, None], shown.shape)
    if over == "items":
        mass = mass * (policy.items != NOTHING)
    whole = added(context, np.asarray(mass.sum(axis=1)), units.contexts + 1)
    met = added(context, np.asarray((mass * logged[shown]).sum(axis=1)), units.contexts + 1)
    return np.divide(met, whole, out=np.zeros(whole.shape), where=whole > 0)[units.context]
