"""A model's state as a Snapshot record, with a checksum of every state; numbered chunks for what one cannot hold."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from learner import ALGORITHMS, Bandit, PbmUcb, RandomLists
from learner.bandits import CONTEXT_FREE, LinearRanking, Ranking
from learner.browsing import MAX_POSITIONS
from learner.exact import state_sha256
from schemas.codec import SchemaError, decode, encode
from schemas.records import Snapshot, StateArray
from streams.settings import Bucket

CHUNK_BYTES = 800_000  # of payload in one record, so that it stays below the broker's 1 MB with its other fields
MAX_BYTES = 1 << 30  # of a whole snapshot

CANDIDATE = "@candidate-"  # before the bucket, in the key of a candidate
ROLLOUT = "@rollout-"
MAX_DIM = 4096  # as much as settings allow a bucket
LEARNED_WITH = (  # what must be the same for a learner to go on from a snapshot
    "algorithm",
    "dim",
    "positions",
    "ridge",
    "beta",
    "phi",
    "context_scale",
    "reward_scale",
    "examination_sha256",
    "encoder_sha256",
    "samples_topic_id",
    "samples_partition",
)

Version = tuple[int, int]  # (epoch, samples offset), which only grows


class Hopeless(Exception):
    """Somebody must decide what to do: trying again changes nothing."""


class SnapshotCorrupt(Hopeless, ValueError):
    """A snapshot whose bytes do not give the state that its checksum promises."""


class ConfigChanged(Hopeless, ValueError):
    """A bucket whose settings are not those of its newest snapshot."""


class SnapshotMissing(Hopeless, LookupError):
    """No snapshot where one was looked for."""


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
        encoder_sha256=bucket.contexts_sha256,
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
    """Refuse a whole snapshot of sizes that nobody has, or whose state does not give the checksum that it carries."""
    _check_sizes(snapshot)
    state = snapshot.state_arrays
    strange = [f"{name} of {cells.dtype}" for name, cells in state.items() if cells.dtype != np.int64]
    if strange:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} must hold int64 sums, got {', '.join(strange)}")
    found = state_sha256(settings_of(snapshot), state)
    if found != snapshot.sha256:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} promises {snapshot.sha256[:12]}…, but holds {found[:12]}…")


def _check_sizes(snapshot: Snapshot) -> None:
    """Refuse what would make memory of a few bytes, before anything is made of it."""
    name = name_of(snapshot)
    if snapshot.algorithm not in ALGORITHMS:
        raise SnapshotCorrupt(f"snapshot {name} is of {snapshot.algorithm!r}, none of {', '.join(ALGORITHMS)}")
    limits = {"positions": (1, MAX_POSITIONS), "dim": (0, MAX_DIM), "epoch": (1, None), "samples_offset": (0, None)}
    for field, (least, most) in limits.items():
        found = getattr(snapshot, field)
        if found < least or (most is not None and found > most):
            raise SnapshotCorrupt(f"snapshot {name} has {field} {found}, wanted {least} to {most or 'any'}")
    cells = {part.name: len(part.data) // 8 for part in snapshot.state}
    wanted = snapshot.dim * (snapshot.dim + 1) // 2
    if snapshot.algorithm not in CONTEXT_FREE and cells.get("gram_low") != wanted:
        raise SnapshotCorrupt(f"snapshot {name} must have {wanted} sums for {snapshot.dim} features, found {cells}")


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
    if snapshot.algorithm in CONTEXT_FREE:  # no contexts, so none of their settings
        for name in ("dim", "phi", "ridge", "beta", "context_scale"):
            del settings[name]
    if snapshot.algorithm == RandomLists.name:
        del settings["alpha"], settings["examination"]
    return settings


def restore_model(bucket: Bucket, snapshot: Snapshot) -> Bandit:
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


def frozen_model(snapshot: Snapshot) -> Ranking:
    """Return what ranks with a snapshot alone: its sums and settings, without the table that it was learned with."""
    verify(snapshot)
    try:
        model = _ranking_of(snapshot)
        model.restore(snapshot.state_arrays)
    except ValueError as error:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} is no {snapshot.algorithm} state: {error}") from error
    return model


def _ranking_of(snapshot: Snapshot) -> Ranking:
    if snapshot.algorithm == RandomLists.name:
        return RandomLists(positions=snapshot.positions, reward_scale=snapshot.reward_scale)
    if snapshot.algorithm == PbmUcb.name:
        everywhere = np.ones(snapshot.positions)  # the table weighs what is learned; ranking does not look at it
        return PbmUcb(examination=everywhere, alpha=snapshot.alpha, reward_scale=snapshot.reward_scale)
    return LinearRanking(
        snapshot.dim,
        positions=snapshot.positions,
        phi=snapshot.phi,
        alpha=snapshot.alpha,
        ridge=snapshot.ridge,
        beta=snapshot.beta,
        context_scale=snapshot.context_scale,
        reward_scale=snapshot.reward_scale,
    )


def check_stamp(bucket: Bucket, snapshot: Snapshot | None, learned: Version | None) -> None:
    """Refuse to go on with less than what was learned, as progress tells: what lies between would be lost unseen."""
    if learned is None or learned[0] < bucket.epoch or (snapshot is not None and snapshot.version >= learned):
        return
    found = f"only {name_of(snapshot)} can be read" if snapshot is not None else "no snapshot of it can be read"
    raise SnapshotMissing(
        f"bucket {bucket.name!r} was learned to {learned[0]}.{learned[1]}, but {found}: the newer one is damaged, or a "
        f"newer Glimpse wrote it; start that one, or set epoch = {learned[0] + 1} to relearn what the log still has"
    )


def differences(
    bucket: Bucket, snapshot: Snapshot, *, topic_id: str | None = None, partition: int | None = None
) -> list[str]:
    """Return in what the settings of a bucket are not those that a snapshot was learned with; α only ranks."""
    fresh = take_snapshot(
        bucket.model(),
        bucket,
        samples_offset=0,
        topic_id=snapshot.samples_topic_id if topic_id is None else topic_id,
        partition=snapshot.samples_partition if partition is None else partition,
        published_at_ms=0,
    )
    found = [(name, getattr(fresh, name), getattr(snapshot, name)) for name in LEARNED_WITH]
    return [f"{name} {ours!r} (snapshot: {theirs!r})" for name, ours, theirs in found if ours != theirs]


def check_config(bucket: Bucket, snapshot: Snapshot, *, topic_id: str, partition: int) -> None:
    """Refuse to go on with a snapshot that other settings have made, naming what differs and the way out."""
    differs = differences(bucket, snapshot, topic_id=topic_id, partition=partition)
    if bucket.epoch < snapshot.epoch:
        differs.append(f"epoch {bucket.epoch} (snapshot: {snapshot.epoch})")
    same_log = snapshot.samples_topic_id == topic_id and bucket.epoch == snapshot.epoch
    if same_log and snapshot.samples_partition != partition:
        raise ConfigChanged(
            f"bucket {bucket.name!r} was learned on partition {snapshot.samples_partition} of the samples and belongs "
            f"on {partition} now: partitions were added, and its earlier lists stay where they are, out of a new "
            f"epoch's sight; glimpse replay kafka --samples --bucket {bucket.name} learns from all of them"
        )
    if differs:
        raise ConfigChanged(
            f"bucket {bucket.name!r} is set to {', '.join(differs)}; use what it was learned with, or relearn it: "
            f"glimpse rollout --bucket {bucket.name} shows the outcome and, with --yes, makes it the new epoch, as "
            f"epoch = {snapshot.epoch + 1} in the settings does"
        )


def key_of(snapshot: Snapshot, prefix: str = "") -> bytes:
    """Return the key under which a snapshot, or a chunk of one, is kept in a compacted topic."""
    return f"{prefix}{snapshot.bucket}{f'#{snapshot.chunk}' if snapshot.chunk else ''}".encode()


def split_snapshot(snapshot: Snapshot, *, chunk_bytes: int = CHUNK_BYTES) -> list[Snapshot]:
    """Return the records that carry ``snapshot``: itself, or numbered chunks of its bytes when it is too large."""
    whole = encode(snapshot)
    if len(whole) > MAX_BYTES:
        raise ValueError(
            f"snapshot {name_of(snapshot)} has {len(whole)} bytes, more than the {MAX_BYTES} that are read"
        )
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


def join_chunks(chunks: Sequence[Snapshot]) -> Snapshot:
    """Return the whole snapshot that ``split_snapshot`` has cut, given all its chunks in order."""
    if len(chunks) == 1 and chunks[0].chunks == 1:
        return chunks[0]
    first = chunks[0]
    if [chunk.chunk for chunk in chunks] != list(range(first.chunks)):
        raise SnapshotCorrupt(f"snapshot {name_of(first)} has chunks {[c.chunk for c in chunks]} of {first.chunks}")
    whole = load_snapshot(b"".join(part.data for chunk in chunks for part in chunk.state))
    if (whole.bucket, whole.version, whole.sha256) != (first.bucket, first.version, first.sha256):
        raise SnapshotCorrupt(f"the chunks of {name_of(first)} hold {name_of(whole)}")
    return whole


def load_snapshot(data: bytes) -> Snapshot:
    """Return a whole snapshot from its bytes, as Redis and files hold them."""
    try:
        snapshot: Snapshot = decode(data, Snapshot, max_bytes=MAX_BYTES)
    except SchemaError as error:
        raise SnapshotCorrupt(f"no snapshot: {error}") from error
    return snapshot


def name_of(snapshot: Snapshot) -> str:
    """Return what people call a snapshot: bucket, epoch and offset."""
    return f"{snapshot.bucket}@{snapshot.epoch}.{snapshot.samples_offset}"
