"""The columnar batch that everything learns from: lists with their rows, checked once, when it is made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.arrays import Bools, Floats, Ints
from learner.browsing import MAX_POSITIONS, previous_click

NO_ITEM = np.iinfo(np.int64).min  # the id of an item that was not named


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Lists that were shown, row after row, each row with its position k, the last click above it k′ and its reward.

    A batch is checked on construction, so that whatever learns from it can rely on it. ``samples[a:b]`` slices by list,
    ``len(samples)`` counts lists, ``samples.rows`` counts rows.

    Examples
    --------
    >>> samples = Samples.from_clicks(np.zeros((1, 3, 2)), [[0, 1, 0]], items=[[7, 8, 9]])
    >>> samples.item, samples.position, samples.last_click
    (array([7, 8, 9]), array([1, 2, 3]), array([0, 0, 2]))
    """

    item: Ints  # one entry per row, as the next four; the rows of a list stand together
    position: Ints  # 1-based
    last_click: Ints  # position of the last click above, 0 = none
    reward: Floats  # > 0 means clicked
    context: NDArray[np.floating]  # (rows, dim)
    size: Ints  # one entry per list, as the next two: how many rows it has
    list_id: NDArray[np.generic]  # any id
    sign: Ints  # +1 to learn it or −1 to take it back
    # What the checks found anyway; a model compares these with its own limits instead of reading the rows again.
    deepest: int = field(init=False, repr=False)
    largest_reward: float = field(init=False, repr=False)
    largest_context: float = field(init=False, repr=False)
    all_added: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("item", "position", "last_click", "size", "sign"):
            put(name, _integers(name, getattr(self, name)))
        put("reward", np.ascontiguousarray(self.reward, dtype=np.float64))
        context = np.asarray(self.context)
        put("context", np.ascontiguousarray(context, None if context.dtype == np.float32 else np.float64))
        put("list_id", np.asarray(self.list_id))
        self._check_shapes()
        put("deepest", int(self.position.max(initial=0)))
        put("largest_reward", float(self.reward.max(initial=0.0)))
        put("largest_context", float(max(self.context.max(initial=0.0), -self.context.min(initial=0.0))))
        put("all_added", bool(self.sign.min(initial=1) > 0))
        self._check_values()

    def _check_shapes(self) -> None:
        rows, lists = len(self.item), len(self.size)
        if self.context.ndim != 2 or len(self.context) != rows:
            raise ValueError(f"context must be one row of numbers for each of {rows} items, got {self.context.shape}")
        entries = {"position": rows, "last_click": rows, "reward": rows, "list_id": lists, "sign": lists}
        for name, wanted in entries.items():
            shape = getattr(self, name).shape
            if shape != (wanted,):
                raise ValueError(f"{name} must have {wanted} entries, got shape {shape}")
        if int(self.size.sum()) != rows or self.size.min(initial=0) < 0:
            raise ValueError(f"size must add up to the {rows} rows and hold no negative count, got {self.size}")

    def _check_values(self) -> None:
        if self.deepest > MAX_POSITIONS or self.position.min(initial=1) < 1:
            bad = (self.position < 1) | (self.position > MAX_POSITIONS)
            refuse("position", self.position, bad, f"positions run from 1 to {MAX_POSITIONS}")
        if self.last_click.min(initial=0) < 0 or np.any(self.last_click >= self.position):
            bad = (self.last_click < 0) | (self.last_click >= self.position)
            depth = self.position[bad][0]
            rule = f"the last click above position {depth} is at 0 (none) to its position − 1"
            refuse("last_click", self.last_click, bad, rule)
        if not (self.largest_reward < np.inf and self.reward.min(initial=0.0) >= 0.0):
            refuse("reward", self.reward, ~((self.reward >= 0) & (self.reward < np.inf)), "a reward is finite and ≥ 0")
        if not self.largest_context < np.inf:
            refuse("context", self.context, ~np.isfinite(self.context), "features are finite")
        if np.any(np.abs(self.sign) != 1):
            refuse("sign", self.sign, np.abs(self.sign) != 1, "a list is learned (+1) or taken back (−1)")

    @classmethod
    def from_clicks(
        cls,
        contexts: ArrayLike,
        clicks: ArrayLike,
        items: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        list_id: ArrayLike | None = None,
        sign: ArrayLike | None = None,
    ) -> "Samples":
        """Return the samples of n lists: contexts (n, K, d), clicks (n, K) as rewards, items (n, K).

        ``sizes`` says how many positions of each list were rendered; by default all K.
        """
        context, reward = np.asarray(contexts), np.asarray(clicks, dtype=np.float64)
        if context.ndim != 3 or reward.shape != context.shape[:2]:
            raise ValueError(
                f"contexts must have shape (lists, K, d) and clicks (lists, K), got {context.shape} and {reward.shape}"
            )
        lists, depth, _ = context.shape
        item = np.full((lists, depth), NO_ITEM) if items is None else _integers("items", items)
        if item.shape != (lists, depth):
            raise ValueError(f"items must have shape {(lists, depth)} as the clicks, got {item.shape}")
        position = np.broadcast_to(np.arange(1, depth + 1), (lists, depth))
        columns: dict[str, NDArray[Any]] = {"item": item, "position": position, "last_click": previous_click(reward)}
        columns |= {"reward": reward, "context": context}
        if sizes is None:
            size = np.full(lists, depth, dtype=np.int64)
            rows = {name: column.reshape(lists * depth, *column.shape[2:]) for name, column in columns.items()}
        else:
            size = _integers("sizes", sizes)
            if size.shape != (lists,) or size.min(initial=0) < 0 or size.max(initial=0) > depth:
                raise ValueError(f"sizes must hold {lists} counts from 0 to {depth}, got {size}")
            shown = position <= size[:, None]
            rows = {name: column[shown] for name, column in columns.items()}
        ids = np.arange(lists) if list_id is None else np.asarray(list_id)
        signs = np.ones(lists, dtype=np.int64) if sign is None else _integers("sign", sign)
        return cls(**rows, size=size, list_id=ids, sign=signs)

    @classmethod
    def concat(cls, batches: Sequence["Samples"]) -> "Samples":
        """Return all lists of ``batches`` in their order."""
        if not batches:
            raise ValueError("concat needs at least one batch; an empty one is samples[:0]")
        if len(batches) == 1:
            return batches[0]
        widths = {batch.dim for batch in batches}
        if len(widths) > 1:
            raise ValueError(f"batches to concatenate must have the same number of features, got {sorted(widths)}")
        return cls(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in _COLUMNS))

    def __getitem__(self, lists: slice) -> "Samples":
        start, stop, step = lists.indices(len(self))
        if step != 1:
            raise ValueError(f"samples are sliced by list without a step, got step {step}")
        ends = np.concatenate(([0], np.cumsum(self.size)))
        rows = slice(int(ends[start]), int(ends[max(start, stop)]))
        return Samples(
            *(getattr(self, name)[rows] for name in _COLUMNS[:5]),
            *(getattr(self, name)[start:stop] for name in _COLUMNS[5:]),
        )

    def __len__(self) -> int:
        return len(self.size)

    @property
    def rows(self) -> int:
        """How many rows all lists have together."""
        return len(self.item)

    @property
    def dim(self) -> int:
        """How many features a row has."""
        return int(self.context.shape[1])

    def row_sign(self) -> Ints | None:
        """Return the sign of each row, or None when every list is learned."""
        return None if self.all_added else np.repeat(self.sign, self.size)

    def list_of_row(self) -> Ints:
        """Return, for each row, the index of its list."""
        return np.repeat(np.arange(len(self)), self.size)


_COLUMNS = ("item", "position", "last_click", "reward", "context", "size", "list_id", "sign")


def refuse(name: str, values: NDArray[np.generic], bad: Bools, rule: str) -> None:
    """Raise the ValueError that names the first bad entry: field, index, value and the rule it breaks."""
    index = tuple(int(number) for number in np.argwhere(bad)[0])
    where = ", ".join(map(str, index))
    raise ValueError(f"{name}[{where}] is {values[index]}; {rule}")


def _integers(name: str, values: ArrayLike) -> Ints:
    """Return whole numbers as int64; a float array is refused rather than cut."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub" and array.size:
        raise ValueError(f"{name} must be whole numbers, got {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)
