"""A shop like the paper's: 40,000 items, 12 to a list, 56 features, simulated from the published facts.

Taobao's log is not public. What the paper says of it is kept: d = 56 (here 26 columns of the user, 30 of the item),
lists of 12, w between 0.17 and 0.55, only lists with a click kept (180,000 of them), last clicks at position 1 in 16.6%
of these, at 2 in 11.6%, at 12 in 6.2%, and 54% of all rows behind their list's last click. What it does not say is made
up: the features' distribution, a taste that is linear in six hidden traits, candidates
alike in one trait (so that competition differs from list to list), lists in random order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.simulate import answer, distinct, unit

Floats = NDArray[np.float64]

POSITIONS = 12
USER_COLUMNS, ITEM_COLUMNS = 26, 30
LOWEST, HIGHEST = 0.17, 0.55  # of w, published
MEAN, SPREAD = 0.06, 0.055  # γ lies within MEAN ± SPREAD; the mean is what the last clicks' distribution asks for
ITEM_TRAITS, USER_TRAITS = 4, 2
NEIGHBOURS = 0.2  # a visit's candidates come from this share of the shop: items alike in their first trait, say price
ITEM_SHARE = 0.8  # of the spread that is the item's; the rest is the user's, the same for the whole list


def shop_table() -> Floats:
    """Return w of the shop's users, calibrated to the published distribution of last clicks.

    >>> shop_table().max(), float(shop_table()[np.tri(12, dtype=bool)].min().round(2))
    (np.float64(0.55), 0.17)
    """
    k, last = np.arange(1, POSITIONS + 1)[:, None], np.arange(POSITIONS)
    unclicked = np.exp(-0.56 * (k - 1))  # without a click, interest fades soon
    clicked = np.exp(-0.19 * (k - 1) - 0.05 * (k - last - 1))  # behind a click later, and the sooner the further
    return np.asarray(np.tril(LOWEST + (HIGHEST - LOWEST) * np.where(last == 0, unclicked, clicked)))


@dataclass(frozen=True, slots=True)
class Shop:
    """The items and how traits show in features: the same for every seed, so one encoder serves them all."""

    item_traits: Floats  # (items, 4), of length 1, ordered by the first trait
    item_features: NDArray[np.float32]  # (items, 30)
    user_map: Floats  # (2, 26)
    scale: Floats  # (56,): prices and ages have units
    shift: Floats

    @classmethod
    def random(cls, random: np.random.Generator, *, items: int = 40_000) -> "Shop":
        """Return a shop with random items."""
        traits = unit(random.normal(size=(items, ITEM_TRAITS)))
        traits = traits[np.argsort(traits[:, 0])]
        item_map = random.normal(size=(ITEM_TRAITS, ITEM_COLUMNS))
        user_map = random.normal(size=(USER_TRAITS, USER_COLUMNS))
        columns = USER_COLUMNS + ITEM_COLUMNS
        scale, shift = np.exp(random.normal(size=columns)), random.normal(size=columns)
        features = shown(traits @ item_map, random) * scale[USER_COLUMNS:] + shift[USER_COLUMNS:]
        return cls(traits, features.astype(np.float32), user_map, scale, shift)

    def user_features(self, traits: Floats, random: np.random.Generator) -> NDArray[np.float32]:
        """Return the features (n, 26) of users with these traits."""
        features = shown(traits @ self.user_map, random) * self.scale[:USER_COLUMNS] + self.shift[:USER_COLUMNS]
        return features.astype(np.float32)

    def contexts(self, random: np.random.Generator, rows: int) -> NDArray[np.float32]:
        """Return raw contexts (rows, 56) of random users with random items: what an encoder is trained on."""
        items = random.integers(len(self.item_traits), size=rows)
        users = unit(random.normal(size=(rows, USER_TRAITS)))
        return np.hstack([self.user_features(users, random), self.item_features[items]])


@dataclass(frozen=True, slots=True)
class Taste:
    """θ* over the traits: γ = MEAN + SPREAD · (0.8 vᵀitem + 0.2 uᵀuser), always a chance."""

    item: Floats
    user: Floats

    @classmethod
    def random(cls, random: np.random.Generator) -> "Taste":
        """Return a random taste."""
        return cls(unit(random.normal(size=(ITEM_TRAITS,))), unit(random.normal(size=(USER_TRAITS,))))

    def attractiveness(self, item_traits: Floats, user_traits: Floats) -> Floats:
        """Return γ of items (n, m, traits) for their users (n, traits)."""
        mixed = ITEM_SHARE * (item_traits @ self.item) + (1 - ITEM_SHARE) * (user_traits @ self.user)[:, None]
        return np.asarray(MEAN + SPREAD * mixed)


@dataclass(frozen=True, slots=True)
class Record:
    """Visits as columns: who came, the candidates in the order of the log, γ, and the clicks if they were shown so."""

    user_features: NDArray[np.float32]  # (n, 26)
    items: NDArray[np.int64]  # (n, m)
    attractiveness: Floats  # (n, m)
    clicks: Floats  # (n, m), as the shop's own random order earned them


def visits(
    shop: Shop,
    taste: Taste,
    random: np.random.Generator,
    *,
    lists: int,
    candidates: int = POSITIONS,
    clicked_only: bool = False,
) -> Record:
    """Return ``lists`` visits, or only those with a click on the first 12: the paper drops the others."""
    traits = unit(random.normal(size=(lists, USER_TRAITS)))
    pool = len(shop.item_traits)
    near = distinct(random, pool=int(NEIGHBOURS * pool), lists=lists, size=candidates)
    items = (random.integers(pool, size=(lists, 1)) + near) % pool
    gamma = taste.attractiveness(shop.item_traits[items], traits)
    clicks = np.zeros(gamma.shape)
    clicks[:, :POSITIONS] = answer(gamma[:, :POSITIONS], shop_table(), random).clicks
    if clicked_only:
        kept = clicks.any(axis=1)
        traits, items, gamma, clicks = traits[kept], items[kept], gamma[kept], clicks[kept]
    return Record(shop.user_features(traits, random), items, gamma, clicks)


def shown(signal: Floats, random: np.random.Generator) -> Floats:
    """Return features between 0 and 1 that a signal and a little noise give rise to."""
    noisy = signal + 0.3 * random.normal(size=signal.shape)
    return np.asarray(1 / (1 + np.exp(-noisy)))
