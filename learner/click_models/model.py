"""What the click models have in common: fitting, likelihood and perplexity."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.browsing import previous_click
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

    steps: ClassVar[int] = 0
    """Steps of EM that ``glimpse fit`` runs, the constructor's first argument; 0: the constructor's default."""

    quick_steps: ClassVar[int] = 0
    """The same for a model that is fitted again and again, to windows of a stream."""

    implies_table: ClassVar[bool] = False
    """Whether the examination table only sums up how users browse, by the mean over the log's rows."""

    fits_table: ClassVar[bool] = False
    """Whether a table K×K is all that it learns of browsing: a fit is then a fresh one of the table in force."""

    _table: ClassVar[str] = ""  # what that table is called
    _pairs: Pairs | None = None
    _attractiveness: Floats
    _prior: Beta = LAPLACE  # as it was given, or as it was learned

    def __init__(self, *, prior: Prior = LAPLACE) -> None:
        if not isinstance(prior, Beta) and prior != "empirical":
            raise ValueError(f'prior must be a Beta, or "empirical" to learn one from the log; got {prior!r}')
        self.prior: Prior = prior

    @classmethod
    def thorough(cls) -> Self:
        """Return the model as ``glimpse fit`` fits it to a whole log."""
        kind: Any = cls
        return cast(Self, kind(cls.steps, prior="empirical") if cls.steps else kind(prior="empirical"))

    @classmethod
    def quick(cls) -> Self:
        """Return the model as it is fitted again and again, to windows of a stream."""
        kind: Any = cls
        return cast(Self, kind(cls.quick_steps) if cls.quick_steps else kind())

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

    def attractiveness(self, items: Column, queries: Column | None = None) -> Floats:
        """Return the attractiveness of each item under its query, the prior's mean for a pair that was never shown."""
        return self._attracted(self._pairs_of(items, queries))

    def _pairs_of(self, items: Column, queries: Column | None) -> Ints:
        """Return the code of each item under its query."""
        pairs = self._fitted()
        if queries is not None and len(queries) != len(items):
            raise ValueError(f"queries has {len(queries)} entries, items has {len(items)}; give one for each")
        query_ids = None if queries is None else checked_ids("queries", queries)
        return pairs.of(checked_ids("items", items), query_ids, np.ones(len(items), dtype=np.int64))

    def log_likelihood(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> float:
        """Return the mean over all shown positions of ln P(what happened there | the clicks above)."""
        sums, counts = self._scores(read_log(items, clicks, queries, sizes=sizes), given_clicks_above=True)
        return float(sums.sum() / counts.sum())

    def log_likelihood_per_list(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> Floats:
        """Return for each list the sum over its positions of ln P(what happened there | the clicks above)."""
        log = read_log(items, clicks, queries, sizes=sizes)
        return np.concatenate([block.sum(axis=1) for block in self._log_chances(log, given_clicks_above=True)])

    def perplexity(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> float:
        """Return the mean of the perplexities per rank: 1 is a prophet, 2 a coin; the clicks above are not known."""
        return float(self.perplexity_per_rank(items, clicks, queries, sizes=sizes).mean())

    def conditional_perplexity(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> float:
        """Return the mean of the perplexities per rank when the clicks above are known."""
        ranks = self.perplexity_per_rank(items, clicks, queries, sizes=sizes, given_clicks_above=True)
        return float(ranks.mean())

    def perplexity_per_rank(
        self,
        items: Lists,
        clicks: Lists,
        queries: Column | None = None,
        *,
        sizes: Column | None = None,
        given_clicks_above: bool = False,
    ) -> Floats:
        """Return for each rank 2 to the power of −mean log₂ P(what happened there) over the lists that reach it."""
        log = read_log(items, clicks, queries, sizes=sizes)
        sums, counts = self._scores(log, given_clicks_above=given_clicks_above)
        return np.exp(-sums / counts)

    def examination_of(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> tuple[Floats, Ints]:
        """Return the examination table that the model stands for, and how many rows of the log are behind each cell.

        UBM and PBM carry it: K×K, or one chance per position. CM reads on until the first click: w[k, 0] = 1, and 0
        after a click. The others are no UBM: whether a user still reads depends on the items passed since the click, so
        a cell has the mean of P(still reads | the clicks above) over the log's rows in it; cells without any take their
        row's mean.

        >>> from learner.click_models import CM
        >>> log = [[1, 2], [2, 1]], [[1, 0], [0, 1]]
        >>> CM().fit(*log).examination_of(*log)[0]
        array([[1., 0.],
               [1., 0.]])
        """
        log = read_log(items, clicks, queries, sizes=sizes)
        cell = (np.arange(log.positions) * log.positions + previous_click(log.clicks))[log.shown]
        possible = np.tri(log.positions, dtype=np.bool_)
        rows = np.bincount(cell, minlength=possible.size).reshape(possible.shape)
        return self._table_of(log, cell, rows, possible), np.where(possible, rows, 0)

    def _table_of(self, log: ClickLog, cell: Ints, rows: Ints, possible: Bools) -> Floats:
        """Return the table; ``cell`` is that of each row, ``rows`` counts those in each of the ``possible`` cells."""
        raise TypeError(f"{type(self).__name__} says nothing of what is examined")

    @abstractmethod
    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        """Set what the model knows of browsing, return each pair's attractiveness; ``pair`` is the code of a row."""

    @abstractmethod
    def _conditional(self, pair: Ints, clicks: Bools) -> Floats:
        """Return P(click | the clicks above) for each row of (lists, K) matrices; ``pair`` has codes."""

    @abstractmethod
    def _marginal(self, pair: Ints) -> Floats:
        """Return P(click) for each row of a (lists, K) matrix of codes, the clicks above not being known."""

    def _fitted(self) -> Pairs:
        if self._pairs is None:
            raise RuntimeError(f"this {type(self).__name__} has learned nothing yet; call fit first")
        return self._pairs

    def _attracted(self, pair: Ints) -> Floats:
        # an unknown pair's code is one above the known ones
        return np.append(self._attractiveness, self._prior.mean)[pair]

    def codes(self, log: ClickLog) -> Ints:
        """Return the code of each row's pair (lists, K), one above the known ones for what ``fit`` never met."""
        pairs = self._fitted()
        codes = np.full(log.shown.shape, len(pairs))
        codes[log.shown] = pairs.of(log.items, log.queries, log.sizes)
        return codes

    def _scores(self, log: ClickLog, *, given_clicks_above: bool) -> tuple[Floats, Ints]:
        """Return per rank the sum of ln P(what happened) and the number of lists that reach it."""
        self._fitted()
        if log.positions > self.positions:
            at = int(np.argmax(log.sizes))
            raise ValueError(
                f"items[{at}] has {log.positions} positions, but the model was fitted on at most {self.positions}; "
                "cut the list, or fit on lists that long"
            )
        sums = np.zeros(log.positions)
        for block in self._log_chances(log, given_clicks_above=given_clicks_above):
            sums += block.sum(axis=0)
        return sums, log.shown.sum(axis=0)

    def _log_chances(self, log: ClickLog, *, given_clicks_above: bool) -> Iterator[Floats]:
        """Yield ln P(what happened) of each row, some lists at a time; 0 beyond a list's end."""
        codes, shown = self.codes(log), log.shown
        for start in range(0, len(log), LISTS_AT_ONCE):
            part = slice(start, start + LISTS_AT_ONCE)
            pair, clicks = codes[part], log.clicks[part]
            click = self._conditional(pair, clicks) if given_clicks_above else self._marginal(pair)
            happened = np.where(clicks, click, 1 - click)
            yield np.log(happened, out=np.zeros(happened.shape), where=shown[part])


def filled(table: Floats, observations: Ints, possible: Bools) -> tuple[Floats, int]:
    """Return ``table`` with unobserved possible cells at the mean of their row's observed ones, and their number.

    A row without any observed cell has no mean and keeps its values.

    >>> table = np.array([[0.9, 0.0], [0.4, 0.5]])
    >>> filled(table, np.array([[7, 0], [3, 0]]), np.tri(2, dtype=bool))
    (array([[0.9, 0. ],
           [0.4, 0.4]]), 1)
    """
    observed = possible & (observations > 0)
    gaps = possible & ~observed
    count = observed.sum(axis=1, keepdims=True)
    mean = np.where(observed, table, 0.0).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    return np.where(gaps & (count > 0), mean, table), int(np.count_nonzero(gaps))
