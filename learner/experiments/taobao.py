"""The paper's e-commerce experiment on a simulated shop: K = 3, 4, 5, 6 of the 12 items of each record.

``judge="log"`` is the paper's procedure: only records with a click are kept, a record's twelve items are the
candidates, and a shown item's reward is its logged click times w[k, k′]/w[logged k, logged k′], k′ being drawn row by
row. Everyone learns from that reward. ``judge="drawn"`` is the same, but what is learned from is a click drawn with
that chance, which is 1 for most rewards wherever they stand: positions then hardly matter. ``judge="users"`` is the
truth that only a simulation has: the users themselves, clickers or not, answer the list that the policy shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from learner.click_models import PBM, UBM
from learner.encoder import Encoder, Half
from learner.experiments.arena import Earned, compete
from learner.experiments.policies import Entry, Knowledge, entered
from learner.experiments.shop import HIGHEST, POSITIONS, Record, Shop, Taste, shop_table, visits
from learner.experiments.visits import Visits, batches, shuffled

Floats = NDArray[np.float64]

SHOP_SEED = 2020  # one shop for all seeds: one encoder serves them all
FITTED_LISTS = 100_000  # from which w is learned before the first round
PART = 4000  # visits made at once
CLICKED = 0.15  # of the visits have a click at least, a little more in truth


@dataclass(frozen=True, slots=True)
class Taobao:
    """The shop, its encoder and who answers; every seed has its own taste, its own users and its own fitted table."""

    encoder: Encoder
    judge: Literal["log", "drawn", "users"]
    fitted_lists: int = FITTED_LISTS
    items: int = 40_000

    def play(self, entries: Sequence[Entry], *, size: int, rounds: int, seed: int) -> Mapping[Entry, Earned]:
        """Return what each entry earns with lists of ``size`` among the users of ``seed``."""
        shop, taste = shop_of(self.items), Taste.random(np.random.default_rng([seed, 0]))
        known = knowledge(shop, taste, np.random.default_rng([seed, 1]), lists=self.fitted_lists)
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

    def checkpoints(self, rounds: int) -> NDArray[np.int64]:
        """Return the rounds at which curves are drawn."""
        return np.unique(np.linspace(rounds / 60, rounds, 60).astype(np.int64))

    def _visits(self, shop: Shop, taste: Taste, random: np.random.Generator, known: Knowledge) -> Iterator[Visits]:
        items = self.encoder.item_half(shop.item_features)
        logged = self.judge != "users"
        while True:
            lists = int(PART / CLICKED) if logged else PART
            record = visits(shop, taste, random, lists=lists, clicked_only=logged)
            attraction = reweighted(record.clicks, known.table) if logged else record.attractiveness
            codes = encoded(self.encoder, items, record)
            yield shuffled(Visits(record.items, codes, record.attractiveness, attraction), random)


def shop_of(items: int) -> Shop:
    """Return the one shop that all seeds share."""
    return Shop.random(np.random.default_rng(SHOP_SEED), items=items)


def knowledge(shop: Shop, taste: Taste, random: np.random.Generator, *, lists: int) -> Knowledge:
    """Return w as EM finds it in a log of all lists, clicked or not, scaled so that its largest is the published 0.55.

    Clicks tell w only up to a factor. A log of clicked lists alone, which the paper describes, would tell that deep
    positions are always examined when nothing was clicked above: every one of its lists has a click somewhere.
    """
    log = visits(shop, taste, random, lists=lists)
    ubm, pbm = UBM().fit(log.items, log.clicks).examination, PBM().fit(log.items, log.clicks).examination
    return Knowledge(ubm * (HIGHEST / ubm.max()), pbm * (HIGHEST / pbm.max()))


def reweighted(clicks: Floats, table: Floats) -> Floats:
    """Return each logged click divided by the chance that its row was examined: the UBM-IPS reward before Φ's w."""
    return np.asarray(clicks / table[np.arange(clicks.shape[1]), previous_click(clicks)])


def encoded(encoder: Encoder, items: Half, record: Record) -> NDArray[np.float32]:
    """Return the codes (n, m, 10) of a record's candidates for their users, from halves."""
    n, m = record.items.shape
    users = np.repeat(encoder.user_half(record.user_features).values, m, axis=0)
    codes = encoder.join(Half(users, 0, 0), Half(items.values[record.items.reshape(-1)], 0, 0))
    return codes.values.reshape(n, m, encoder.code)


def facts(lists: int, seed: int) -> dict[str, float]:
    """Return what the paper publishes of its log, as the simulated one has it."""
    shop, random = shop_of(40_000), np.random.default_rng(seed)
    clicks = visits(shop, Taste.random(random), random, lists=lists, clicked_only=True).clicks
    last = POSITIONS - clicks[:, ::-1].argmax(axis=1)
    table = shop_table()[np.tri(POSITIONS, dtype=np.bool_)]
    return {
        "last click at 1": float((last == 1).mean()),
        "last click at 2": float((last == 2).mean()),
        "last click at 12": float((last == POSITIONS).mean()),
        "rows behind the last click": float(((POSITIONS - last) / POSITIONS).mean()),
        "smallest w": float(table.min()),
        "largest w": float(table.max()),
    }
