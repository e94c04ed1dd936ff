"""What the click models have in common: fitting, likelihood and perplexity."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from learner.click_models.ids import Pairs, checked_ids
from learner.click_models.log import ClickLog, Column, Lists, read_log
from learner.click_models.prior import LAPLACE, Beta, Prior

LISTS_AT_ONCE = 4096  # what a measure holds in memory beside the log, so that the matrices stay in cache


class ClickModel(ABC):
    """Says how likely each click of a list is, from the attractiveness of its items and where they stand.

    All models take lists the same way. ``items`` and ``clicks`` are (n, K) arrays, or n sequences that may differ in
    length, of at most 50 positions; arrays with lists that end early come with ``sizes``. Ids are all integers or all
    strings, a click is any number above 0, an item may stand twice in a list. With ``queries``, one per list, an item
    is another one under another query.

    Parameters
    ----------
    prior
        What is known of a pair of query and item before it was shown: a Beta distribution, or ``"empirical"`` to learn
        one from all pairs of the log. A pair that ``fit`` never met has the prior's mean as attractiveness.
    """

    positions: int
    """Length K of the longest list that ``fit`` met; longer ones cannot be judged."""

    unobserved: int = 0
    """How many values of the table that describes browsing no list reached."""

    _table: ClassVar[str] = ""  # what that table is called
    _pairs: Pairs | None = None
    _attractiveness: NDArray[np.float64]
    _prior: Beta = LAPLACE  # as it was given, or as it was learned

    def __init__(self, *, prior: Prior = LAPLACE) -> None:
        if not isinstance(prior, Beta) and prior != "empirical":
            raise ValueError(f'prior must be a Beta, or "empirical" to learn one from the log; got {prior!r}')
        self.prior: Prior = prior

    def fit(self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None) -> Self:
        """Learn from logged lists, forgetting what was learned before; a refused log changes nothing."""
        log = read_log(items, clicks, queries, sizes=sizes)
        pairs, pair = Pairs.met_in(log.items, log.queries, log.sizes)
        self._attractiveness = self._learn(log, pair, len(pairs))
        self._pairs, self.positions = pairs, log.positions
        if self.unobserved:
            warnings.warn(
                f"{type(self).__name__}: no list reached {self.unobserved} of the {self._table} values; "
                "they have the mean of the observed ones beside them, if there are any, and 0 in observations",
                stacklevel=2,
            )
        return self

    def attractiveness(self, items: Column, queries: Column | None = None) -> NDArray[np.float64]:
        """Return the attractiveness of each item under its query, the prior's mean for a pair that was never shown."""
        pairs = self._fitted()
        if queries is not None and len(queries) != len(items):
            raise ValueError(f"queries has {len(queries)} entries, items has {len(items)}; give one for each")
        query_ids = None if queries is None else checked_ids("queries", queries)
        return self._attracted(pairs.of(checked_ids("items", items), query_ids, np.ones(len(items), dtype=np.int64)))

    def log_likelihood(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> float:
        """Return the mean over all shown positions of ln P(what happened there | the clicks above)."""
        sums, counts = self._scores(read_log(items, clicks, queries, sizes=sizes), given_clicks_above=True)
        return float(sums.sum() / counts.sum())

    def log_likelihood_per_list(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> NDArray[np.float64]:
        """Return for each list the sum over its positions of ln P(what happened there | the clicks above)."""
        log = read_log(items, clicks, queries, sizes=sizes)
        codes, found = self.codes(log), np.empty(len(log))
        for start in range(0, len(log), LISTS_AT_ONCE):
            part = slice(start, start + LISTS_AT_ONCE)
            click = self._conditional(codes[part], log.clicks[part])
            happened = np.where(log.clicks[part], click, 1 - click)
            found[part] = np.log(happened, out=np.zeros(happened.shape), where=log.shown[part]).sum(axis=1)
        return found

    def perplexity(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> float:
        """Return the mean of the perplexities per rank: 1 is a prophet, 2 a coin; the clicks above are not known."""
        return float(np.mean(self.perplexity_per_rank(items, clicks, queries, sizes=sizes)))

    def perplexity_per_rank(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> NDArray[np.float64]:
        """Return for each rank 2 to the power of −mean log₂ P(what happened there) over the lists that reach it."""
        sums, counts = self._scores(read_log(items, clicks, queries, sizes=sizes), given_clicks_above=False)
        return np.exp(-sums / counts)

    def conditional_perplexity(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> float:
        """Return the mean of the conditional perplexities per rank."""
        return float(np.mean(self.conditional_perplexity_per_rank(items, clicks, queries, sizes=sizes)))

    def conditional_perplexity_per_rank(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> NDArray[np.float64]:
        """Return the perplexity per rank when the clicks above are known."""
        sums, counts = self._scores(read_log(items, clicks, queries, sizes=sizes), given_clicks_above=True)
        return np.exp(-sums / counts)

    @abstractmethod
    def _learn(self, log: ClickLog, pair: NDArray[np.int64], pairs: int) -> NDArray[np.float64]:
        """Set what the model knows of browsing, return each pair's attractiveness; ``pair`` is the code of a row."""

    @abstractmethod
    def _conditional(self, pair: NDArray[np.int64], clicks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return P(click | the clicks above) for each place of (lists, K) matrices; ``pair`` has codes."""

    @abstractmethod
    def _marginal(self, pair: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return P(click) for each place of a (lists, K) matrix of codes, the clicks above not being known."""

    def _fitted(self) -> Pairs:
        if self._pairs is None:
            raise RuntimeError(f"this {type(self).__name__} has learned nothing yet; call fit first")
        return self._pairs

    def _attracted(self, pair: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.append(self._attractiveness, self._prior.mean)[
            pair
        ]  # an unknown pair's code is one above the known ones

    def codes(self, log: ClickLog) -> NDArray[np.int64]:
        """Return the code of each row's pair (lists, K), one above the known ones for what ``fit`` never met."""
        pairs = self._fitted()
        codes = np.full(log.shown.shape, len(pairs))
        codes[log.shown] = pairs.of(log.items, log.queries, log.sizes)
        return codes

    def _scores(self, log: ClickLog, *, given_clicks_above: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return per rank the sum of ln P(what happened) and the number of lists that reach it."""
        self._fitted()
        if log.positions > self.positions:
            at = int(np.argmax(log.sizes))
            raise ValueError(
                f"items[{at}] has {log.positions} positions, but the model was fitted on at most {self.positions}; "
                "cut the list, or fit on lists that long"
            )
        shown = log.shown
        codes = self.codes(log)
        sums = np.zeros(log.positions)
        for start in range(0, len(log), LISTS_AT_ONCE):
            part = slice(start, start + LISTS_AT_ONCE)
            pair, clicks = codes[part], log.clicks[part]
            click = self._conditional(pair, clicks) if given_clicks_above else self._marginal(pair)
            happened = np.where(clicks, click, 1 - click)
            sums += np.log(happened, out=np.zeros(happened.shape), where=shown[part]).sum(axis=0)
        return sums, shown.sum(axis=0)
