"""The paper's e-commerce and online experiments in a simulated shop.

E-commerce: K = 3, 4, 5, 6 of the 12 items of each record. ``judge="log"`` is the paper's procedure: only records with
a click are kept, a record's twelve items are the candidates, and a shown item's reward is its logged click times
w[k, k′]/w[logged k, logged k′], k′ being drawn row by row. Everyone learns from that reward. ``judge="drawn"`` is the
same, but what is learned from is a click drawn with that chance, which is 1 for most rewards wherever they stand:
positions then hardly matter. ``judge="users"`` is the truth that only a simulation has: the users themselves, clickers
or not, answer the list that the policy shows.

Online: buckets of users over three days, 12 of many items to a list. Each algorithm has its own bucket and learns only
from it. Traffic follows the hours of a day; between 0 and 6 o'clock fewer users come, and those who do are keener, as
the paper reports. A list is learned from ten minutes after it was shown, when its clicks are in. The paper ranks 40,000
items per visit; here 200 of them are candidates for a visit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from learner.click_models import PBM, UBM
from learner.encoder import Encoder, Half
from learner.experiments.arena import Earned, Visits, batches, compete
from learner.experiments.policies import Entry, Knowledge, entered
from learner.experiments.shop import HIGHEST, POSITIONS, Record, Shop, Taste, shop_table, visits

Floats = NDArray[np.float64]

SHOP_SEED = 2020  # one shop for all seeds: one encoder serves them all
FITTED_LISTS = 100_000  # from which w is learned before the first round
PART = 4000  # visits made at once
CLICKED = 0.15  # of the visits have a click at least, a little more in truth
DAYS, STEPS = 3, 6  # a step of an hour is ten minutes: what is learned from at once
KEEN = 1.3  # γ of those who come at night
CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Taobao:
    """The shop, its encoder and who answers; every seed has its own taste, its own users and its own fitted table."""

    encoder: Encoder
    judge: Literal["log", "drawn", "users"]
    fitted_lists: int = FITTED_LISTS
    items: int = 40_000

    def play(self, entries: Sequence[Entry], *, size: int, rounds: int, seed: int) -> Mapping[Entry, Earned]:
        """Return what each entry earns with lists of ``size`` among the users of ``seed``."""
        shop, taste, known = opened(self.items, seed, self.fitted_lists)
        parts = self._visits(shop, taste, np.random.default_rng([seed, 2]), known)
        cells = known.table[np.tri(POSITIONS, dtype=np.bool_)]
        reweighted = self.judge == "log"
        largest = float(cells.max() / cells.min()) * (1 + 1e-9) if reweighted else 1.0  # reward; rounding may pass it
        return compete(
            entered(entries, dim=self.encoder.code, known=known.cut(size), reward_scale=largest),
            batches(parts, rounds=rounds),
            size=size,
            examination=shop_table() if self.judge == "users" else known.table,
            seed=seed,
            reweighted=reweighted,
        )

    def _visits(self, shop: Shop, taste: Taste, random: np.random.Generator, known: Knowledge) -> Iterator[Visits]:
        items = self.encoder.item_half(shop.item_features)
        logged = self.judge != "users"
        while True:
            lists = int(PART / CLICKED) if logged else PART
            record = visits(shop, taste, random, lists=lists, clicked_only=logged)
            attraction = reweighted(record.clicks, known.table) if logged else record.attractiveness
            codes = encoded(self.encoder, items, record)
            yield Visits(record.items, codes, record.attractiveness, attraction).shuffled(random)


@dataclass(frozen=True, slots=True)
class Online:
    """Three days in the shop."""

    encoder: Encoder
    fitted_lists: int = FITTED_LISTS
    items: int = 40_000

    def play(self, entries: Sequence[Entry], *, size: int, rounds: int, seed: int) -> Mapping[Entry, Earned]:
        """Return what each entry's bucket earns in three days with ``rounds`` visits to each bucket."""
        shop, taste, known = opened(self.items, seed, self.fitted_lists)
        return compete(
            entered(entries, dim=self.encoder.code, known=known.cut(size)),
            self._steps(shop, taste, np.random.default_rng([seed, 2]), rounds),
            size=size,
            examination=shop_table(),
            seed=seed,
            delay=1,
        )

    def _steps(self, shop: Shop, taste: Taste, random: np.random.Generator, rounds: int) -> Iterator[Visits]:
        items = self.encoder.item_half(shop.item_features)
        for step, lists in enumerate(traffic_by_step(rounds)):
            record = visits(shop, taste, random, lists=int(lists), candidates=CANDIDATES)
            keen = KEEN if (step // STEPS) % 24 < 6 else 1.0
            gamma = record.attractiveness * keen
            yield Visits(record.items, encoded(self.encoder, items, record), gamma, gamma)


def shop_of(items: int) -> Shop:
    """Return the one shop that all seeds share."""
    return Shop.random(np.random.default_rng(SHOP_SEED), items=items)


def opened(items: int, seed: int, lists: int) -> tuple[Shop, Taste, Knowledge]:
    """Return the shop, the taste of a seed's users, and w as EM finds it in a log of all lists, clicked or not.

    Clicks tell w only up to a factor: its largest is the published 0.55. A log of clicked lists alone, which the paper
    describes, would tell that deep positions are always examined when nothing was clicked above: every one of its
    lists has a click somewhere.
    """
    shop, taste = shop_of(items), Taste.random(np.random.default_rng([seed, 0]))
    log = visits(shop, taste, np.random.default_rng([seed, 1]), lists=lists)
    ubm, pbm = (kind().fit(log.items, log.clicks).examination for kind in (UBM, PBM))
    return shop, taste, Knowledge(ubm * (HIGHEST / ubm.max()), pbm * (HIGHEST / pbm.max()))


def reweighted(clicks: Floats, table: Floats) -> Floats:
    """Return each logged click divided by the chance that its row was examined: the UBM-IPS reward before Φ's w."""
    return np.asarray(clicks / table[np.arange(clicks.shape[1]), previous_click(clicks)])


def encoded(encoder: Encoder, items: Half, record: Record) -> NDArray[np.float32]:
    """Return the codes (n, m, 10) of a record's candidates for their users, from halves."""
    n, m = record.items.shape
    users = np.repeat(encoder.user_half(record.user_features).values, m, axis=0)
    codes = encoder.join(Half(users, 0, 0), Half(items.values[record.items.reshape(-1)], 0, 0))
    return codes.values.reshape(n, m, encoder.code)


def traffic_by_step(rounds: int) -> NDArray[np.int64]:
    """Return the visits of every ten minutes of three days: least at 4 o'clock, most at 16; at least one.

    >>> traffic_by_step(43_200).reshape(3, 24, 6)[0, [4, 16], 0]
    array([ 40, 160])
    """
    hour = np.arange(DAYS * 24 * STEPS) // STEPS % 24
    volume = 1 - 0.6 * np.cos(2 * np.pi * (hour - 4) / 24)
    return np.asarray(np.maximum(1, np.rint(rounds * volume / volume.sum())), dtype=np.int64)


def visits_by_hour(rounds: int) -> NDArray[np.int64]:
    """Return the visits by the end of each of the 72 hours."""
    return np.cumsum(traffic_by_step(rounds).reshape(-1, STEPS).sum(axis=1))


def by_day(rounds: NDArray[np.int64], curve: Floats) -> Floats:
    """Return each day's own click rate from the cumulative means at the ends of the hours.

    >>> by_day(np.arange(1, 73), np.concatenate((np.ones(24), np.full(48, np.nan)))).round(1)[0]
    np.float64(1.0)
    """
    total = np.concatenate(([0.0], (curve * rounds)[23::24]))
    shown = np.concatenate(([0], rounds[23::24]))
    return np.asarray(np.diff(total) / np.diff(shown))
