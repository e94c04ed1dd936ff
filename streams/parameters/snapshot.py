"""Models in, Snapshot records out, and back: chunks for what one record cannot hold, a checksum for every state."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from learner import Bandit, PbmUcb
from learner.bandits import LinearRanking
from learner.exact import state_sha256
from schemas.codec import SchemaError, decode, encode
from schemas.records import Snapshot, StateArray
from streams.settings.settings import Bucket

CHUNK_BYTES = 800_000  # of payload in one record, so that it stays below the broker's 1 MB with its other fields
MAX_BYTES = 1 << 30  # of a whole snapshot
Version = tuple[int, int]  # (epoch, samples offset), which only grows


class SnapshotCorrupt(ValueError):
    """A snapshot whose bytes do not give the state that its checksum promises."""


class ConfigChanged(ValueError):
    """A bucket whose settings are not those of its newest snapshot."""


def take_snapshot(
    model: Bandit, bucket: Bucket, *, samples_offset: int, topic_id: str, partition: int, published_at_ms: int
) -> Snapshot:
    """Return ``model`` as a whole snapshot that holds every sample below ``samples_offset``."""
    settings = model.settings()
    return Snapshot(
        bucket=bucket.name,
        algorithm=bucket.algorithm,
        epoch=bucket.epoch,
        samples_offset=samples_offset,
        theta=_estimate(model),
        rounds=model.rounds,
        positions=model.positions,
        dim=model.dim,
        ridge=float(settings.get("ridge") or 0.0),
        beta=float(settings.get("beta") or 0.0),
        phi=float(settings.get("phi") or 0.0),
        alpha=bucket.alpha,
        context_scale=bucket.context_scale,
        reward_scale=bucket.reward_scale,
        examination_sha256=str(settings.get("examination") or ""),
        encoder_sha256="",
        samples_topic_id=topic_id,
        samples_partition=partition,
        state=[StateArray.of(name, array) for name, array in model.state().items()],
        sha256=model.sha256(),
        published_at_ms=published_at_ms,
    )


def _estimate(model: Bandit) -> bytes:
    try:
        return model.theta.astype("<f8").tobytes()
    except ArithmeticError:  # more was taken back than learned: the sums are right and may recover, but cannot rank now
        return b""


def verify(snapshot: Snapshot) -> None:
    """Refuse a whole snapshot whose state and settings do not give the checksum that it carries."""
    state = snapshot.state_arrays
    strange = [f"{name} of {cells.dtype}" for name, cells in state.items() if cells.dtype != np.int64]
    if strange:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} must hold int64 sums, got {', '.join(strange)}")
    found = state_sha256(settings_of(snapshot), state)
    if found != snapshot.sha256:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} promises {snapshot.sha256[:12]}…, but holds {found[:12]}…")


def settings_of(snapshot: Snapshot) -> dict[str, str | float | int | None]:
    """Return the settings of the model that was snapshotted, as its ``settings()`` gave them."""
    settings: dict[str, str | float | int | None] = {
        "algorithm": snapshot.algorithm,
        "dim": snapshot.dim,
        "positions": snapshot.positions,
        "phi": snapshot.phi,
        "alpha": snapshot.alpha,
        "ridge": snapshot.ridge,
        "beta": snapshot.beta,
        "context_scale": snapshot.context_scale,
        "reward_scale": snapshot.reward_scale,
        "examination": snapshot.examination_sha256,
    }
    if snapshot.algorithm == PbmUcb.name:  # no contexts, so none of their settings
        for name in ("dim", "phi", "ridge", "beta", "context_scale"):
            del settings[name]
    return settings


def restore(bucket: Bucket, snapshot: Snapshot) -> Bandit:
    """Return the bucket's learner as it was when ``snapshot`` was taken, checked against the snapshot's checksum.

    Only α may be another than in the snapshot: it decides how to rank, never what was learned.
    """
    verify(snapshot)
    model = bucket.model()
    try:
        model.restore(snapshot.state_arrays)
    except ValueError as error:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} is no state of {bucket.algorithm}: {error}") from error
    return model


def frozen(snapshot: Snapshot) -> LinearRanking | PbmUcb:
    """Return what ranks with a snapshot alone: its sums and settings, without the table that it was learned with."""
    verify(snapshot)
    model: LinearRanking | PbmUcb
    if snapshot.algorithm == PbmUcb.name:
        everywhere = np.ones(snapshot.positions)  # the table weighs what is learned; ranking does not look at it
        model = PbmUcb(examination=everywhere, alpha=snapshot.alpha, reward_scale=snapshot.reward_scale)
    else:
        model = LinearRanking(
            snapshot.dim,
            positions=snapshot.positions,
            phi=snapshot.phi,
            alpha=snapshot.alpha,
            ridge=snapshot.ridge,
            beta=snapshot.beta,
            context_scale=snapshot.context_scale,
            reward_scale=snapshot.reward_scale,
        )
    try:
        model.restore(snapshot.state_arrays)
    except ValueError as error:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} is no {snapshot.algorithm} state: {error}") from error
    return model


def check_config(bucket: Bucket, snapshot: Snapshot, *, topic_id: str, partition: int) -> None:
    """Refuse to go on with a snapshot that other settings have made, naming what differs and the way out."""
    fresh = take_snapshot(
        bucket.model(), bucket, samples_offset=0, topic_id=topic_id, partition=partition, published_at_ms=0
    )
    names = (
        *("algorithm", "dim", "positions", "ridge", "beta", "phi", "context_scale", "reward_scale"),
        *("examination_sha256", "encoder_sha256", "samples_topic_id", "samples_partition"),
    )
    found = [(name, getattr(fresh, name), getattr(snapshot, name)) for name in names]
    differs = [f"{name} {ours!r} (snapshot: {theirs!r})" for name, ours, theirs in found if ours != theirs]
    if bucket.epoch < snapshot.epoch:
        differs.append(f"epoch {bucket.epoch} (snapshot: {snapshot.epoch})")
    if (snapshot.samples_topic_id, bucket.epoch) == (
        topic_id,
        snapshot.epoch,
    ) and snapshot.samples_partition != partition:
        raise ConfigChanged(
            f"bucket {bucket.name!r} was learned on partition {snapshot.samples_partition} of the samples and belongs "
            f"on {partition} now: partitions were added, and its earlier lists stay where they are, out of a new "
            f"epoch's sight; glimpse replay kafka --samples --bucket {bucket.name} learns from all of them"
        )
    if differs:
        raise ConfigChanged(
            f"bucket {bucket.name!r} is set to {', '.join(differs)}; use what it was learned with, or relearn it: "
            f"glimpse replay kafka --bucket {bucket.name} shows the outcome, epoch = {snapshot.epoch + 1} in the "
            "settings makes it the new epoch"
        )


def name_of(snapshot: Snapshot) -> str:
    """Return what people call a snapshot: bucket, epoch and offset."""
    return f"{snapshot.bucket}@{snapshot.epoch}.{snapshot.samples_offset}"


def split(snapshot: Snapshot, *, chunk_bytes: int = CHUNK_BYTES) -> list[Snapshot]:
    """Return the records that carry ``snapshot``: itself, or numbered chunks of its bytes when it is too large."""
    whole = encode(snapshot)
    if len(whole) <= chunk_bytes:
        return [snapshot]
    pieces = [whole[start : start + chunk_bytes] for start in range(0, len(whole), chunk_bytes)]
    return [
        replace(
            snapshot,
            theta=b"",
            state=[StateArray("piece", "|u1", [len(piece)], piece)],
            chunk=number,
            chunks=len(pieces),
        )
        for number, piece in enumerate(pieces)
    ]


def join(chunks: Sequence[Snapshot]) -> Snapshot:
    """Return the whole snapshot that ``split`` has cut, given all its chunks in order."""
    if len(chunks) == 1 and chunks[0].chunks == 1:
        return chunks[0]
    first = chunks[0]
    if [chunk.chunk for chunk in chunks] != list(range(first.chunks)):
        raise SnapshotCorrupt(f"snapshot {name_of(first)} has chunks {[c.chunk for c in chunks]} of {first.chunks}")
    whole = load(b"".join(part.data for chunk in chunks for part in chunk.state))
    if (whole.bucket, whole.version, whole.sha256) != (first.bucket, first.version, first.sha256):
        raise SnapshotCorrupt(f"the chunks of {name_of(first)} hold {name_of(whole)}")
    return whole


def load(data: bytes) -> Snapshot:
    """Return a whole snapshot from its bytes, as Redis and files hold them."""
    try:
        snapshot: Snapshot = decode(data, Snapshot, max_bytes=MAX_BYTES)
    except SchemaError as error:
        raise SnapshotCorrupt(f"no snapshot: {error}") from error
    return snapshot


class Newest:
    """Snapshot records in, the newest whole snapshot of each bucket out; older ones and loose chunks are left aside."""

    def __init__(self) -> None:
        self.by_bucket: dict[str, Snapshot] = {}
        self._waiting: dict[tuple[str, Version, str], dict[int, Snapshot]] = {}

    def add(self, record: Snapshot) -> bool:
        """Note one record; return whether a newer snapshot of its bucket is now whole."""
        known = self.by_bucket.get(record.bucket)
        if known is not None and record.version <= known.version:
            return False
        if record.chunks > 1:
            key = (record.bucket, record.version, record.sha256)
            waiting = self._waiting.setdefault(key, {})
            waiting[record.chunk] = record
            if len(waiting) < record.chunks:
                return False
            record = join([waiting[number] for number in sorted(waiting)])
        self.by_bucket[record.bucket] = record
        self._forget(record.bucket, record.version)
        return True

    def _forget(self, bucket: str, version: Version) -> None:
        for key in [key for key in self._waiting if key[0] == bucket and key[1] <= version]:
            del self._waiting[key]


def newest(records: Iterable[Snapshot]) -> dict[str, Snapshot]:
    """Return the newest whole snapshot of each bucket."""
    gather = Newest()
    for record in records:
        gather.add(record)
    return gather.by_bucket
