"""A shop with a catalogue, and its simulated users: what they like, how they browse, and how their taste drifts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from learner.simulate import Users, answer, browsing_table, unit
from streams.rank import Catalogue

BROWSING = ("ubm", "pbm", "cm", "dcm")
ITEMS, USERS = 500, 5000  # so few items that a bandit without contexts can learn them in minutes
ITEM_COLUMNS, USER_COLUMNS = 3, 2  # with the recipe below, contexts of 10 numbers
RECIPE = ("constant", "item", "products")
MEAN, SPREAD = 0.15, 0.14  # γ of the items lies within MEAN ± SPREAD
SAMPLE = 200  # users who are asked how far tastes reach
STAY = 0.7  # the chance that a reader who browses by DCM reads on after a click

Floats = NDArray[np.float64]


class Storefront:
    """Users who find an item attractive with a chance linear in its context, and who look down a list as told.

    Parameters
    ----------
    browse
        ``ubm``, ``pbm``, ``cm`` or ``dcm``: how positions are examined.
    drift
        By how many degrees a minute the taste turns.
    """

    def __init__(self, catalogue: Catalogue, *, browse: str = "ubm", drift: float = 0.0, seed: int = 0) -> None:
        if browse not in BROWSING:
            raise ValueError(f"browse must be one of {', '.join(BROWSING)}; got {browse!r}")
        self.catalogue, self.browse, self.drift = catalogue, browse, drift
        self.users = catalogue.user_ids or [f"user-{number}" for number in range(USERS)]
        random = np.random.default_rng(seed)
        direction = unit(random.normal(size=(2, catalogue.dim)))
        if not catalogue.recipe.coded:
            nothing = np.eye(1, 1 + catalogue.item_columns)  # item and user without features: all but a constant is 0
            direction[:, catalogue.recipe.contexts(nothing, np.zeros(catalogue.user_columns))[0] > 0] = 0.0
        asked = [self.users[number] for number in random.integers(len(self.users), size=SAMPLE)]
        self._tastes = direction * SPREAD
        self._reach = max(float(np.abs(self._agreement(user, self._tastes)).max()) for user in asked) / SPREAD

    def attraction(self, user: str, at_s: float) -> Floats:
        """Return γ of every item of the catalogue for a user, after so many seconds."""
        angle = math.radians(self.drift) * at_s / 60
        turned = np.array([[math.cos(angle), math.sin(angle)]]) @ self._tastes
        return np.clip(MEAN + self._agreement(user, turned)[:, 0] / self._reach, 0.0, 1.0)

    def _agreement(self, user: str, tastes: Floats) -> Floats:
        return self.catalogue.seen_by(self.catalogue.user(user)).contexts(None) @ tastes.T

    def visit(
        self, user: str, items: NDArray[np.int64], at_s: float, random: np.random.Generator
    ) -> tuple[list[int], float]:
        """Return the positions that a user clicks, 1 being the top, and the chance of a click that the list lost."""
        attraction = self.attraction(user, at_s)
        shown = attraction[self.catalogue.rows_of(items)]
        table, stay = examined(self.browse, len(items))
        clicks = answer(shown[None], table, random, stay).clicks[0]
        best = np.sort(attraction)[::-1][: len(items)]
        lost = float(np.prod(1 - table[:, 0] * shown) - np.prod(1 - table[:, 0] * best))
        return (np.flatnonzero(clicks) + 1).tolist(), lost


def examined(browse: str, positions: int) -> tuple[Floats, Floats | None]:
    """Return w[k, k′] of users who browse so, and the chance that they read on after a click, if that counts."""
    table, nobody = browsing_table(positions), np.zeros(1)
    users = {
        "ubm": lambda: Users(nobody, table),
        "pbm": lambda: Users.pbm(nobody, table[:, 0]),
        "cm": lambda: Users.cm(nobody, positions),
        "dcm": lambda: Users.dcm(nobody, np.full(positions, STAY)),
    }[browse]()
    return users.examination, users.continuation


def write_shop(file: Path, *, seed: int = 0) -> None:
    """Write a made-up catalogue: items and users with features, whose contexts have 10 numbers."""
    random = np.random.default_rng(seed)
    with file.open("wb") as out:
        np.savez(
            out,
            items=np.arange(1, ITEMS + 1),
            features=unit(random.normal(size=(ITEMS, ITEM_COLUMNS))).astype(np.float32),
            users=np.array([f"user-{number}" for number in range(USERS)]),
            user_features=unit(random.normal(size=(USERS, USER_COLUMNS))).astype(np.float32),
            recipe=np.array(RECIPE),
        )
