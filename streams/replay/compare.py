"""How far replayed models are from published snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from learner import Bandit
from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import Snapshot
from streams.logs import ArchiveSource, LogSource
from streams.parameters import DirectoryParameters, Newest, SnapshotCorrupt, frozen_model, name_of
from streams.rank import Candidates

R = TypeVar("R")


_FIELDS = {"examination": "examination_sha256"}  # of a snapshot, where they are called otherwise
_SYMBOLS = {"alpha": "α", "ridge": "λ", "beta": "β", "phi": "φ′", "examination": "table"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A replayed model beside the live snapshot of its bucket."""

    bucket: str
    live: str  # name of the snapshot
    same_sums: bool
    rounds: int  # replayed − live
    distance: float | None  # ‖θ − θ live‖; None where there is no θ to compare
    overlap: float | None  # share of the top K that both name, when there are candidates
    changed: list[str]  # parameters that are others

    def __str__(self) -> str:
        if self.same_sums and not self.changed:
            return f"{self.bucket}: the same bits as {self.live}"
        if self.same_sums:
            same = f"{self.bucket}: A and b are the same, bit by bit, as in {self.live}"
            moved = f"‖Δθ‖ = {self.distance:.6g}" if self.distance else "θ is the same, ranks are not: widths differ"
            ranks = "" if self.overlap is None else f"; top-K overlap {self.overlap:.1%}"
            return f"{same}; other: {', '.join(self.changed)}; {moved}{ranks}"
        words = [f"{self.bucket}: {self.rounds:+d} lists against {self.live}"]
        if self.distance is not None:
            words.append(f"‖θ − θ live‖ = {self.distance:.6g}")
        if self.overlap is not None:
            words.append(f"top-K overlap {self.overlap:.1%}")
        if self.changed:
            words.append(f"other: {', '.join(self.changed)}")
        return ", ".join(words)


def live_snapshots(source: LogSource, topic: str = "parameters") -> dict[str, Snapshot]:
    """Return the newest snapshot of each bucket on a source's parameters topic; none when it has no such topic."""
    gathered = Newest()
    for snapshot in published(source, Snapshot, topic):
        with suppress(SnapshotCorrupt):  # it hides nothing
            gathered.add(snapshot)
    return gathered.by_bucket


def published(source: LogSource, kind: type[R], topic: str = "parameters") -> Iterator[R]:
    """Yield every record of a kind that the parameters topic still has, snapshots in the chunks that they came in."""
    if not source.has(topic):
        return
    for partition in range(source.partitions(topic)):
        for block in source.read(topic, partition, *source.bounds(topic, partition)):
            for record in block.records():
                try:
                    message = decode(record.value or b"", max_bytes=2 * MAX_BYTES)
                except SchemaError:
                    continue  # somebody else's bytes, as the ranker's reader passes over them
                if isinstance(message, kind):
                    yield message


def snapshots_in(folder: Path, buckets: Iterable[str], *, skip_corrupt: bool = False) -> dict[str, Snapshot]:
    """Return the snapshots in a directory such as a ranker reads."""
    directory, snapshots = DirectoryParameters(folder), {}
    for name in buckets:
        with suppress(SnapshotCorrupt) if skip_corrupt else nullcontext():
            if (snapshot := directory.newest(name)) is not None:
                snapshots[name] = snapshot
    return snapshots


def snapshots_at(source: LogSource, buckets: Mapping[str, object]) -> dict[str, Snapshot] | None:
    """Return the newest snapshots where a source has them: on its topic, or in an embedded runner's folder; or None."""
    if source.has("parameters"):
        return live_snapshots(source)
    if isinstance(source, ArchiveSource) and (source.archive.path / "snapshots").is_dir():
        return snapshots_in(source.archive.path / "snapshots", buckets)
    return None


def compare(
    models: Mapping[str, Bandit],
    live: Mapping[str, Snapshot],
    *,
    candidates: Candidates | None = None,
    size: int = 12,
) -> list[Comparison]:
    """Return how each model differs from its bucket's live snapshot, if there is one."""
    return [_compare(models[name], live[name], candidates, size) for name in models if name in live]


def _compare(model: Bandit, snapshot: Snapshot, candidates: Candidates | None, size: int) -> Comparison:
    other = frozen_model(snapshot)
    ours, theirs = model.state(), snapshot.state_arrays
    same = (
        model.name == snapshot.algorithm
        and ours.keys() == theirs.keys()
        and all(np.array_equal(ours[name], theirs[name]) for name in ours)
    )
    distance = overlap = None
    try:
        if model.dim and model.dim == other.dim:
            distance = float(np.linalg.norm(model.theta - other.theta))
        if candidates is not None:
            size = min(size, len(candidates.items))
            ranked = [bandit.rank(candidates.contexts, size=size, items=candidates.items) for bandit in (model, other)]
            overlap = len(np.intersect1d(ranked[0], ranked[1])) / size
    except ArithmeticError as error:  # more was taken back than learned
        raise SnapshotCorrupt(f"{name_of(snapshot)} cannot be compared: {error}") from error
    changed = _changed(model, snapshot)
    rounds = model.rounds - snapshot.rounds
    return Comparison(snapshot.bucket, name_of(snapshot), same, rounds, distance, overlap, changed)


def _changed(model: Bandit, live: Snapshot) -> list[str]:
    """Return which parameters of a model differ from those of a snapshot, as people read them."""
    pairs = {name: (getattr(live, _FIELDS.get(name, name)), ours) for name, ours in model.settings().items()}
    return [
        f"{_SYMBOLS.get(name, name)} {_short(theirs)} → {_short(ours)}"
        for name, (theirs, ours) in pairs.items()
        if theirs != ours
    ]


def _short(value: Any) -> str:
    if isinstance(value, str):
        return f"{value[:12]}…" if len(value) > 20 else value
    return "by the theorem" if value is None else f"{value:g}"
