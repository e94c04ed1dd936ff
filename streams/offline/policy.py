"""The lists that a snapshot's model would have shown to the users of a click log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from learner import PbmUcb, RandomLists
from learner.bandits import LinearRanking, Ranking
from learner.evaluate import LoggedLists, Policy
from schemas.records import Snapshot
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
    notes: list[str]


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


def replay(
    logs: Logs,
    snapshot: Snapshot,
    *,
    size: int | None = None,
    temperature: float = 0.0,
    lists: int = 100,
    seed: int = 0,
) -> Replay:
    """Return the lists of the snapshot's model in each logged context, of ``size`` items (None: as many as logged).

    If an item always has the same vector under its query, or none, a context is a query, and its candidates are all the
    items that were logged under it. Otherwise vectors tell of users too: then a context is a list's items with their
    vectors, the policy reorders what was shown, as in the paper, and chances that were logged are not used, since they
    are those of a choice from more items.
    A ``temperature`` above 0 makes the policy draw items one by one, by e^(estimate / temperature): ``lists`` of them
    are drawn in each context.
    """
    model = frozen_model(snapshot)
    _check(logs, model, snapshot)
    vectors = logs.contexts if isinstance(model, LinearRanking) else None
    by_query = vectors is None or _same_vectors(logs, vectors)
    context = _queries(logs) if by_query or vectors is None else _lists(logs, vectors)
    size = size or logs.positions
    temperature = 1.0 if isinstance(model, RandomLists) else temperature  # all its estimates are the same
    random = np.random.default_rng(seed)
    shown: list[NDArray[np.int64]] = []
    rows_of = np.split(np.argsort(context, kind="stable"), np.cumsum(np.bincount(context))[:-1])
    for rows in rows_of:
        flat = logs.items[rows].reshape(-1)
        items, where = np.unique(flat, return_index=True)
        items, where = (items[1:], where[1:]) if items[0] == NOTHING else (items, where)
        x = NO_VECTORS if vectors is None else vectors[rows[where // logs.positions], where % logs.positions]
        ids = np.array([logs.item_ids[item] for item in items]) if vectors is None else None
        try:
            if temperature:
                scores = model.predict(x, items=ids) / temperature
                order = np.argsort(-(scores + random.gumbel(size=(lists, len(items)))), axis=1)[:, :size]
            else:
                order = model.rank(x, size=min(size, len(items)), items=ids)[None]
        except ValueError as error:
            raise LogError(f"{logs.place(int(rows[0]))}: {error}") from error
        shown.append(np.pad(items[order], ((0, 0), (0, size - order.shape[1])), constant_values=NOTHING))
    each = lists if temperature else 1
    first = np.array([rows[0] for rows in rows_of])
    of_list = np.repeat(np.arange(len(first)), each)
    chances, position_chances = (logs.propensities, logs.position_propensities) if by_query else (None, None)
    ignored = not by_query and (logs.propensities is not None or logs.position_propensities is not None)
    return Replay(
        LoggedLists.of(logs.items, logs.clicks, context, chances=chances, position_chances=position_chances),
        Policy.of(np.vstack(shown), of_list, np.full(len(of_list), 1 / each)),
        contexts=len(first),
        query=None if logs.queries is None else logs.queries[first][of_list],
        notes=["the log's propensities were not used: the policy only reorders what was shown"] if ignored else [],
    )


def _same_vectors(logs: Logs, vectors: NDArray[np.float32]) -> bool:
    """Return whether each item has one vector under its query."""
    inside = logs.items != NOTHING
    pair = (np.broadcast_to(_queries(logs)[:, None], inside.shape) * len(logs.item_ids) + logs.items)[inside]
    _, first, place = np.unique(pair, return_index=True, return_inverse=True)
    rows = vectors[inside]
    return bool(np.array_equal(rows, rows[first[place]]))


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
