"""The lists that a snapshot's model would have shown to the users of a click log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from learner import PbmUcb, RandomLists
from learner.bandits import LinearRanking, Ranking
from learner.evaluate import LoggedLists, Policy
from schemas.records import Snapshot
from streams.offline.candidates import CandidateLists
from streams.offline.logs import NOTHING, LogError, Logs
from streams.parameters import DirectoryParameters, SnapshotMissing, frozen_model, load_snapshot

NO_VECTORS: Final = np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Replay:
    """What was logged, and what the policy shows in the same contexts."""

    log: LoggedLists
    policy: Policy
    contexts: int
    query: NDArray[np.int64] | None  # the query number of each of the policy's lists
    vectors: NDArray[np.float32] | None  # (m, L, d) of the policy's rows, 0 beyond a list's end
    requests: NDArray[np.int64] | None  # the logged list that each of the policy's answers; None: candidates not logged
    personal: bool  # whether an item's vector differs between lists
    assumes: str  # what the candidates were taken to be, where the log does not say
    notes: list[str]

    def by_request(self, logs: Logs) -> Replay:
        """Return the same with a context for each logged list, as chances that were logged are those within one."""
        if self.requests is None:
            return self
        each = np.bincount(self.requests, minlength=len(logs))
        return replace(
            self,
            log=_logged(logs, np.arange(len(logs)), chances=True),
            policy=Policy.of(self.policy.items, self.requests, 1 / each[self.requests]),
            contexts=len(logs),
        )


def read_snapshot(path: Path, bucket: str | None = None) -> Snapshot:
    """Return the snapshot in a file, or that of a bucket in a directory; the only one there needs no name."""
    if path.is_file():
        return load_snapshot(path.read_bytes())
    if not path.is_dir():
        raise SnapshotMissing(f"no snapshot under {path}; it is a file, or a directory with one file per bucket")
    there = sorted(file.stem for file in path.glob("*.snapshot"))
    if bucket is None and len(there) != 1:
        raise SnapshotMissing(f"{path} has snapshots of {', '.join(there) or 'no bucket'}; say which: --bucket NAME")
    found = DirectoryParameters(path).newest(bucket or there[0])
    if found is None:
        raise SnapshotMissing(f"no snapshot of {bucket!r} in {path}; there are {', '.join(there) or 'none'}")
    return found


@dataclass(frozen=True, slots=True)
class Draw:
    """How a policy makes its lists."""

    size: int | None = None  # None: as long as the longest logged one
    temperature: float = 0.0  # above 0 it draws items one by one, by e^(estimate / temperature)
    lists: int = 100  # that are then drawn in each context
    seed: int = 0


PLAIN_DRAW: Final = Draw()


def replay(logs: Logs, snapshot: Snapshot, draw: Draw = PLAIN_DRAW) -> Replay:
    """Return the lists that the snapshot's model shows in each logged context.

    If the log says what each list was chosen from, the policy chooses from the same. Otherwise that is assumed, and
    said: if an item always has the same vector under its query, or none, the candidates are all items that were logged
    under the query. If not, vectors tell of users: then the policy reorders what was shown, as in the paper, and
    chances that were logged are not used, since they are those of a choice from more items.
    """
    model = frozen_model(snapshot)
    _check(logs, model, snapshot)
    if isinstance(model, RandomLists):
        draw = replace(draw, temperature=1.0)  # all its estimates are the same
    ranker = _Ranker(logs, model, draw)
    if logs.candidates is not None:
        return _from_candidates(logs, logs.candidates, ranker)
    vectors = logs.contexts if isinstance(model, LinearRanking) else None
    by_query = vectors is None or _one_vector(logs.items[logs.items != NOTHING], *_shown(logs, vectors))
    context = _queries(logs) if by_query or vectors is None else _lists(logs, vectors)
    rows_of = np.split(np.argsort(context, kind="stable"), np.cumsum(np.bincount(context))[:-1])
    for rows in rows_of:
        flat = logs.items[rows].reshape(-1)
        items, where = np.unique(flat, return_index=True)
        items, where = (items[1:], where[1:]) if items[0] == NOTHING else (items, where)
        x = None if vectors is None else vectors[rows[where // logs.positions], where % logs.positions]
        ranker.show(int(rows[0]), items, x)
    each = draw.lists if draw.temperature else 1
    first = np.array([rows[0] for rows in rows_of])
    of_list = np.repeat(np.arange(len(first)), each)
    ignored = not by_query and (logs.propensities is not None or logs.position_propensities is not None)
    return Replay(
        _logged(logs, context, chances=by_query),
        Policy.of(ranker.items, of_list, np.full(len(of_list), 1 / each)),
        contexts=len(first),
        query=None if logs.queries is None else logs.queries[first][of_list],
        vectors=ranker.vectors,
        requests=None,
        personal=not by_query,
        assumes=_assumed(logs, by_query=by_query),
        notes=["the log's propensities were not used: the policy only reorders what was shown"] if ignored else [],
    )


def _from_candidates(logs: Logs, candidates: CandidateLists, ranker: _Ranker) -> Replay:
    vectors = None if ranker.context_free else candidates.contexts
    if vectors is None and not ranker.context_free:
        raise LogError(f"{logs.name} has 'candidate_items' without 'candidate_contexts', by which the policy ranks")
    query = _queries(logs)
    personal = vectors is not None and not _one_vector(candidates.items, query[candidates.list_of], vectors)
    context = np.arange(len(logs)) if personal else query
    wanted = ranker.draw.lists if ranker.draw.temperature else 1
    each = wanted if personal else -(-wanted // len(logs))  # where lists share a context, they draw together
    for row in range(len(logs)):
        part = candidates.row(row)
        items, where = np.unique(candidates.items[part], return_index=True)
        ranker.show(row, items, None if vectors is None else vectors[part][where], times=each)
    requests = np.repeat(np.arange(len(logs)), each)
    return Replay(
        _logged(logs, context, chances=personal),
        Policy.of(ranker.items, context[requests], 1 / (each * np.bincount(context)[context[requests]])),
        contexts=len(np.unique(context)),
        query=None if logs.queries is None else logs.queries[requests],
        vectors=ranker.vectors,
        requests=requests,
        personal=personal,
        assumes="",
        notes=[],
    )


class _Ranker:
    """The lists of a model, one context after another."""

    def __init__(self, logs: Logs, model: Ranking, draw: Draw) -> None:
        self._logs, self._model, self.draw = logs, model, draw
        self.context_free = not isinstance(model, LinearRanking)
        self._size = draw.size or logs.positions
        self._random = np.random.default_rng(draw.seed)
        self._items: list[NDArray[np.int64]] = []
        self._vectors: list[NDArray[np.float32]] = []

    def show(
        self, row: int, items: NDArray[np.int64], x: NDArray[np.float32] | None, *, times: int | None = None
    ) -> None:
        """Add the model's lists out of ``items``; without ``x`` it ranks by ids. ``row`` is where they were logged."""
        ids = np.array([self._logs.item_ids[item] for item in items]) if x is None else None
        given = NO_VECTORS if x is None else x
        try:
            if self.draw.temperature:
                scores = self._model.predict(given, items=ids) / self.draw.temperature
                noise = self._random.gumbel(size=(times or self.draw.lists, len(items)))
                order = np.argsort(-(scores + noise), axis=1)[:, : self._size]
            else:
                order = self._model.rank(given, size=min(self._size, len(items)), items=ids)[None]
        except ValueError as error:
            raise LogError(f"{self._logs.place(row)}: {error}") from error
        beyond = ((0, 0), (0, self._size - order.shape[1]))
        self._items.append(np.pad(items[order], beyond, constant_values=NOTHING))
        if x is not None:
            self._vectors.append(np.pad(x[order], (*beyond, (0, 0))))

    @property
    def items(self) -> NDArray[np.int64]:
        """All lists so far."""
        return np.vstack(self._items)

    @property
    def vectors(self) -> NDArray[np.float32] | None:
        """The vectors of their rows, where the model ranks by them."""
        return np.concatenate(self._vectors) if self._vectors else None


def _logged(logs: Logs, context: NDArray[np.int64], *, chances: bool) -> LoggedLists:
    given, by_position = (logs.propensities, logs.position_propensities) if chances else (None, None)
    return LoggedLists.of(logs.items, logs.clicks, context, chances=given, position_chances=by_position)


def _assumed(logs: Logs, *, by_query: bool) -> str:
    unsaid = f"{logs.name} does not say what each list was chosen from (candidate_items)"
    if not by_query:
        return f"{unsaid}: the policy only puts the items that were shown into its own order"
    where = "the log" if logs.queries is None else "a list's query"
    return (
        f"{unsaid}: taken are all items logged under {where}, {len(logs.item_ids)} items in all; where lists were "
        "chosen from fewer, the estimates are too high"
    )


def _shown(logs: Logs, vectors: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the query and the vector of each row that was shown."""
    inside = logs.items != NOTHING
    return np.broadcast_to(_queries(logs)[:, None], inside.shape)[inside], vectors[inside]


def _one_vector(items: NDArray[np.int64], queries: NDArray[np.int64], vectors: NDArray[np.float32]) -> bool:
    """Return whether each item has one vector under its query."""
    pair = queries * (int(items.max()) + 1) + items
    _, first, place = np.unique(pair, return_index=True, return_inverse=True)
    return bool(np.array_equal(vectors, vectors[first[place]]))


def _queries(logs: Logs) -> NDArray[np.int64]:
    return np.zeros(len(logs), dtype=np.int64) if logs.queries is None else logs.queries


def _lists(logs: Logs, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return a number for each list, the same for lists with the same query, items and vectors in any order."""
    order = np.argsort(logs.items, axis=1, kind="stable")
    items = np.take_along_axis(logs.items, order, axis=1)
    rows = np.take_along_axis(vectors, order[:, :, None], axis=1)
    numbers: dict[tuple[int, bytes, bytes], int] = {}
    keys = zip(
        _queries(logs).tolist(), (each.tobytes() for each in items), (each.tobytes() for each in rows), strict=True
    )
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _check(logs: Logs, model: Ranking, snapshot: Snapshot) -> None:
    if isinstance(model, PbmUcb):
        if not isinstance(logs.item_ids[0], int):
            raise LogError(
                f"{logs.name} has ids like {logs.item_ids[0]!r}; {snapshot.algorithm} knows whole numbers only"
            )
    elif isinstance(model, RandomLists):
        return
    elif logs.contexts is None:
        raise LogError(
            f"{logs.name} has no 'contexts'; {snapshot.algorithm} ranks by vectors of {model.dim} numbers, one per item"
        )
    elif logs.contexts.shape[2] != model.dim:
        raise LogError(f"{logs.name} has contexts of {logs.contexts.shape[2]} numbers, the snapshot ranks {model.dim}")
