"""The shape of the paper's online experiment: buckets of users over three days, 12 of many items to a list.

Each algorithm has its own bucket and learns only from it. Traffic follows the hours of a day; between 0 and 6 o'clock
fewer users come, and those who do are keener, as the paper reports. A list is learned from ten minutes after it was
shown, when its clicks are in. The paper ranks 40,000 items per visit; here 200 of them are candidates for a visit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.encoder import Encoder
from learner.experiments.arena import Earned, compete
from learner.experiments.policies import Entry, entered
from learner.experiments.shop import Shop, Taste, shop_table, visits
from learner.experiments.taobao import FITTED_LISTS, encoded, knowledge, shop_of
from learner.experiments.visits import Visits

Floats = NDArray[np.float64]

DAYS, STEPS = 3, 6  # a step of an hour is ten minutes: what is learned from at once
KEEN = 1.3  # γ of those who come at night
CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Online:
    """Three days in the shop."""

    encoder: Encoder
    fitted_lists: int = FITTED_LISTS
    items: int = 40_000

    def play(self, entries: Sequence[Entry], *, size: int, rounds: int, seed: int) -> Mapping[Entry, Earned]:
        """Return what each entry's bucket earns in three days with ``rounds`` visits to each bucket."""
        shop, taste = shop_of(self.items), Taste.random(np.random.default_rng([seed, 0]))
        known = knowledge(shop, taste, np.random.default_rng([seed, 1]), lists=self.fitted_lists)
        return compete(
            entered(entries, dim=self.encoder.code, known=known.cut(size)),
            self._steps(shop, taste, np.random.default_rng([seed, 2]), rounds),
            size=size,
            examination=shop_table(),
            seed=seed,
            delay=1,
        )

    def checkpoints(self, rounds: int) -> NDArray[np.int64]:
        """Return the visits by the end of each of the 72 hours."""
        return np.cumsum(traffic_by_step(rounds).reshape(-1, STEPS).sum(axis=1))

    def _steps(self, shop: Shop, taste: Taste, random: np.random.Generator, rounds: int) -> Iterator[Visits]:
        items = self.encoder.item_half(shop.item_features)
        for step, lists in enumerate(traffic_by_step(rounds)):
            record = visits(shop, taste, random, lists=int(lists), candidates=CANDIDATES)
            keen = KEEN if (step // STEPS) % 24 < 6 else 1.0
            gamma = record.attractiveness * keen
            yield Visits(record.items, encoded(self.encoder, items, record), gamma, gamma)


def traffic_by_step(rounds: int) -> NDArray[np.int64]:
    """Return the visits of every ten minutes of three days: least at 4 o'clock, most at 16; at least one.

    >>> traffic_by_step(43_200).reshape(3, 24, 6)[0, [4, 16], 0]
    array([ 40, 160])
    """
    hour = np.arange(DAYS * 24 * STEPS) // STEPS % 24
    volume = 1 - 0.6 * np.cos(2 * np.pi * (hour - 4) / 24)
    return np.asarray(np.maximum(1, np.rint(rounds * volume / volume.sum())), dtype=np.int64)


def by_day(rounds: NDArray[np.int64], curve: Floats) -> Floats:
    """Return each day's own click rate from the cumulative means at the ends of the hours.

    >>> by_day(np.arange(1, 73), np.concatenate((np.ones(24), np.full(48, np.nan)))).round(1)[0]
    np.float64(1.0)
    """
    total = np.concatenate(([0.0], (curve * rounds)[23::24]))
    shown = np.concatenate(([0], rounds[23::24]))
    return np.asarray(np.diff(total) / np.diff(shown))
