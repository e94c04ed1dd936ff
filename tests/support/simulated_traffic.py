"""A whole log of random lists shown to simulated users, as columns."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from simulated_events import Clicked, Shown

from learner import Samples
from learner.simulate import World


@dataclass(frozen=True, slots=True)
class Traffic:
    """Lists that were shown, ordered by time, with their clicks and when those came."""

    user: NDArray[np.int64]  # (n,)
    shown_at_ms: NDArray[np.int64]  # (n,)
    items: NDArray[np.int64]  # (n, K)
    contexts: NDArray[np.float64]  # (n, K, d)
    clicks: NDArray[np.float64]  # (n, K)
    clicked_at_ms: NDArray[np.int64]  # (n, K), −1 where there was no click

    def __len__(self) -> int:
        return len(self.user)

    def samples(self) -> Samples:
        """Return the lists as a learner takes them, every click known."""
        return Samples.from_clicks(self.contexts, self.clicks, self.items)

    def events(self) -> Iterator[Shown | Clicked]:
        """Yield impressions and clicks, oldest first; at the same instant a list comes before its clicks."""
        lists, places = np.nonzero(self.clicks)
        at = np.concatenate((self.shown_at_ms, self.clicked_at_ms[lists, places]))
        list_id = np.concatenate((np.arange(len(self)), lists))
        position = np.concatenate((np.zeros(len(self), dtype=np.int64), places + 1))  # 0: the impression itself
        order = np.lexsort((position, list_id, at))
        contexts = self.contexts.astype(np.float32)
        for at_ms, which, where in zip(
            at[order].tolist(), list_id[order].tolist(), position[order].tolist(), strict=True
        ):
            user = int(self.user[which])
            if where:
                yield Clicked(which, user, where, at_ms)
            else:
                yield Shown(which, user, at_ms, self.items[which], contexts[which])


def traffic(
    world: World,
    random: np.random.Generator,
    *,
    lists: int,
    lists_per_s: float = 100.0,
    click_delay_s: float = 20.0,
    users: int = 10_000,
    start_ms: int = 0,
) -> Traffic:
    """Return the log of random lists, ``lists`` of them, made for all users at once."""
    size = len(world.users.examination)
    items, contexts = world.visits(random, lists)
    items, contexts = items[:, :size], contexts[:, :size]  # candidates come in random order
    clicks = world.users.browse(contexts, random)
    shown_at = start_ms + (1000 * np.cumsum(random.exponential(1 / lists_per_s, size=lists))).astype(np.int64)
    delays = np.where(clicks > 0, random.exponential(1000 * click_delay_s, size=clicks.shape), np.inf)
    # the sorted delays go to the clicked positions from top to bottom
    place = np.cumsum(clicks > 0, axis=1) - 1
    ordered = np.take_along_axis(np.sort(delays, axis=1), np.maximum(place, 0), axis=1)
    clicked_at = np.where(clicks > 0, shown_at[:, None] + np.where(clicks > 0, ordered, 0.0).astype(np.int64), -1)
    return Traffic(random.integers(users, size=lists), shown_at, items, contexts, clicks, clicked_at)
