"""The lists that a snapshot's model would have shown to the users of a click log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from learner.bandits import Ranking
from learner.evaluate import BEYOND_END, LoggedLists, Policy
from schemas.records import Snapshot
from streams.offline.logs import LogError, Logs
from streams.parameters import DirectoryParameters, SnapshotMissing, frozen_model, load_snapshot

DRAWN: Final = 100  # lists in each context, of a policy that draws
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
    snapshot = DirectoryParameters(path).newest(bucket or there[0])
    if snapshot is None:
        raise SnapshotMissing(f"no snapshot of {bucket!r} in {path}; there are {', '.join(there) or 'none'}")
    return snapshot


def replay(
    logs: Logs, snapshot: Snapshot, *, size: int | None = None, temperature: float = 0.0, seed: int = 0
) -> Replay:
    """Return the lists that the snapshot's model shows in each logged context, as long as the longest logged one.

    With a ``temperature`` above 0 it draws ``DRAWN`` lists in each, item by item, by e^(estimate / temperature).

    If the log says what each list was chosen from, the policy chooses from the same. Otherwise that is assumed, and
    said: if an item always has the same vector under its query, or none, the candidates are all items that were logged
    under the query. If not, vectors tell of users: then the policy reorders what was shown, as in the paper, and
    chances that were logged are not used, since they are those of a choice from more items.
    """
    model = frozen_model(snapshot)
    _check(logs, model, snapshot)
    if model.draws:
        temperature = 1.0  # all its estimates are the same
    each, query = DRAWN if temperature else 1, _queries(logs)
    parts: Sequence[slice | NDArray[np.int64]]  # of the log, from which a policy chooses
    if (candidates := logs.candidates) is not None:
        vectors = candidates.contexts if model.contextual else None
        if vectors is None and model.contextual:
            raise LogError(f"{logs.name} has 'candidate_items' without 'candidate_contexts', by which the policy ranks")
        personal = vectors is not None and not _one_vector(candidates.items, query[candidates.list_of], vectors)
        context = np.arange(len(logs)) if personal else query
        each = each if personal else -(-each // len(logs))  # where lists share a context, they draw together
        rows, parts = np.arange(len(logs)), [candidates.row(row) for row in range(len(logs))]
    else:
        vectors, inside = logs.contexts if model.contextual else None, logs.items != BEYOND_END
        where = np.broadcast_to(query[:, None], inside.shape)[inside]
        personal = vectors is not None and not _one_vector(logs.items[inside], where, vectors[inside])
        context = _lists(logs, vectors) if personal and vectors is not None else query
        groups = np.split(np.argsort(context, kind="stable"), np.cumsum(np.bincount(context))[:-1])
        rows, parts = np.array([group[0] for group in groups]), groups
    size, random = size or logs.positions, np.random.default_rng(seed)
    shown: list[NDArray[np.int64]] = []
    shown_vectors: list[NDArray[np.float32]] = []
    for row, part in zip(rows.tolist(), parts, strict=True):
        items, x = _offered(logs.items if candidates is None else candidates.items, vectors, part)
        ids = np.array([logs.item_ids[item] for item in items]) if x is None else None
        given = NO_VECTORS if x is None else x
        try:
            if temperature:
                noise = random.gumbel(size=(each, len(items)))
                scores = model.predict(given, items=ids) / temperature
                order = np.argsort(-(scores + noise), axis=1)[:, :size]
            else:
                order = model.rank(given, size=min(size, len(items)), items=ids)[None]
        except ValueError as error:
            raise LogError(f"{logs.place(row)}: {error}") from error
        beyond = ((0, 0), (0, size - order.shape[1]))
        shown.append(np.pad(items[order], beyond, constant_values=BEYOND_END))
        if x is not None:
            shown_vectors.append(np.pad(x[order], (*beyond, (0, 0))))
    of_list = np.repeat(rows, each)
    chances_logged = logs.propensities is not None or logs.position_propensities is not None
    ignored = candidates is None and personal and chances_logged
    return Replay(
        _logged(logs, context, chances=personal == (candidates is not None)),
        Policy.of(np.vstack(shown), context[of_list], 1 / (each * np.bincount(context[rows])[context[of_list]])),
        contexts=len(np.unique(context)),
        query=None if logs.queries is None else logs.queries[of_list],
        vectors=np.concatenate(shown_vectors) if shown_vectors else None,
        requests=None if candidates is None else of_list,
        personal=personal,
        assumes=_assumed(logs, by_query=not personal) if candidates is None else "",
        notes=["the log's propensities were not used: the policy only reorders what was shown"] if ignored else [],
    )


def _offered(
    items: NDArray[np.int64], vectors: NDArray[np.float32] | None, part: slice | NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Return the items of a part of the log, once each, and the vectors of their first rows."""
    names, where = np.unique(items[part].reshape(-1), return_index=True)
    names, where = (names[1:], where[1:]) if names[0] == BEYOND_END else (names, where)
    return names, None if vectors is None else vectors[part].reshape(-1, vectors.shape[-1])[where]


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


def _one_vector(items: NDArray[np.int64], queries: NDArray[np.int64], vectors: NDArray[np.float32]) -> bool:
    """Return whether each item has one vector under its query."""
    pair = queries * (int(items.max()) + 1) + items
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    return bool(np.array_equal(vectors, vectors[first[group]]))


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
    if model.draws:
        return
    if not model.contextual:
        if not isinstance(logs.item_ids[0], int):
            raise LogError(
                f"{logs.name} has ids like {logs.item_ids[0]!r}; {snapshot.algorithm} knows whole numbers only"
            )
    elif logs.contexts is None:
        raise LogError(
            f"{logs.name} has no 'contexts'; {snapshot.algorithm} ranks by vectors of {model.dim} numbers, one per item"
        )
    elif logs.contexts.shape[2] != model.dim:
        raise LogError(f"{logs.name} has contexts of {logs.contexts.shape[2]} numbers, the snapshot ranks {model.dim}")
