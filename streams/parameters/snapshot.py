"""A model's state as a Snapshot record with a checksum, in chunks where one is too large; the newest of each bucket."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from learner import ALGORITHMS, Bandit
from learner.bandits import Ranking
from learner.browsing import MAX_POSITIONS
from learner.exact import state_sha256
from schemas.codec import SchemaError, decode, encode
from schemas.json_text import parse_json
from schemas.records import Snapshot, StateArray
from streams.settings import MAX_DIM, Bucket

CHUNK_BYTES = 800_000  # of payload in one record, so that it stays below the broker's 1 MB with its other fields
MAX_BYTES = 1 << 30  # of a whole snapshot
MAX_CHUNKS = 10_000  # of one snapshot

CANDIDATE = "@candidate-"  # before the bucket, in the key of a candidate
ROLLOUT = "@rollout-"
LEARNED_WITH = (  # what must be the same for a learner to go on from a snapshot
    "algorithm",
    "dim",
    "positions",
    "ridge",
    "beta",
    "phi",
    "context_scale",
    "reward_scale",
    "options",
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


class AlgorithmUnknown(SnapshotCorrupt):
    """A snapshot that an algorithm learned which is not registered here: nobody here can rank with it or judge it."""


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
        options=json.dumps(bucket.options, sort_keys=True) if bucket.options else "",
    )


def _estimate(model: Bandit) -> bytes:
    try:
        return model.theta.astype("<f8").tobytes()
    except ArithmeticError:  # more was taken back than learned: the sums are right and may recover, but cannot rank now
        return b""


def verify(snapshot: Snapshot) -> None:
    """Refuse a whole snapshot of sizes that nobody has, or whose state does not give the checksum that it carries."""
    _check_sizes(snapshot)
    name, state = name_of(snapshot), snapshot.state_arrays
    strange = [f"{part} of {cells.dtype}" for part, cells in state.items() if cells.dtype != np.int64]
    if strange:
        raise SnapshotCorrupt(f"snapshot {name} must hold int64 sums, got {', '.join(strange)}")
    sha256 = state_sha256(settings_of(snapshot), state)
    if sha256 != snapshot.sha256:
        raise SnapshotCorrupt(f"snapshot {name} promises {snapshot.sha256[:12]}…, but holds {sha256[:12]}…")


def _check_sizes(snapshot: Snapshot) -> None:
    """Refuse what would make memory of a few bytes, before anything is made of it."""
    name, kind = name_of(snapshot), algorithm_of(snapshot)
    limits = {"positions": (1, MAX_POSITIONS), "dim": (0, MAX_DIM), "epoch": (1, None), "samples_offset": (0, None)}
    for field, (least, most) in limits.items():
        value = getattr(snapshot, field)
        if value < least or (most is not None and value > most):
            raise SnapshotCorrupt(f"snapshot {name} has {field} {value}, wanted {least} to {most or 'any'}")
    cells = {part.name: len(part.data) // 8 for part in snapshot.state}
    wanted = kind.state_sizes(snapshot.dim, snapshot.positions)
    if any(part not in cells or size not in (None, cells[part]) for part, size in wanted.items()):
        raise SnapshotCorrupt(f"snapshot {name} must have sums {wanted} for {snapshot.dim} features, found {cells}")


def algorithm_of(snapshot: Snapshot) -> type[Bandit]:
    """Return the algorithm that learned a snapshot; one that is not registered here cannot be ranked with."""
    if snapshot.algorithm not in ALGORITHMS:
        raise AlgorithmUnknown(
            f"snapshot {name_of(snapshot)} was learned by {snapshot.algorithm!r}; this process knows "
            f"{', '.join(ALGORITHMS)}; install the version of Glimpse that wrote it, or register the algorithm in "
            "learner.bandits.ALGORITHMS"
        )
    return ALGORITHMS[snapshot.algorithm]


def settings_of(snapshot: Snapshot) -> dict[str, str | float | int | None]:
    """Return the settings of the model that was snapshotted, as its ``settings()`` gave them."""
    names = {"examination": "examination_sha256"}
    recorded = algorithm_of(snapshot).recorded
    shared = {key: getattr(snapshot, names.get(key, key)) for key in recorded}
    return {"algorithm": snapshot.algorithm, **shared, **options_of(snapshot)}


def options_of(snapshot: Snapshot) -> dict[str, float]:
    """Return what a snapshot's algorithm alone was set to; an option that is not known here is refused."""
    name, own = name_of(snapshot), algorithm_of(snapshot).own_options
    try:
        told = parse_json(snapshot.options) if snapshot.options else {}
        strange = told.keys() ^ own.keys()
        values = {} if strange else {key: option.check(float(told[key])) for key, option in own.items()}
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise SnapshotCorrupt(f"snapshot {name} has options that cannot be used: {error}") from error
    if strange:
        raise AlgorithmUnknown(
            f"snapshot {name} was learned with other options of {snapshot.algorithm!r} than this process knows: "
            f"{', '.join(sorted(strange))}; install the version that wrote it"
        )
    return values


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
        model = algorithm_of(snapshot).frozen(settings_of(snapshot))
        model.restore(snapshot.state_arrays)
    except ValueError as error:
        raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} is no {snapshot.algorithm} state: {error}") from error
    return model


def check_stamp(bucket: Bucket, snapshot: Snapshot | None, learned: Version | None) -> None:
    """Refuse to go on with less than what was learned, as progress tells: what lies between would be lost unseen."""
    if learned is None or learned[0] < bucket.epoch or (snapshot is not None and snapshot.version >= learned):
        return
    known = f"only {name_of(snapshot)} can be read" if snapshot is not None else "no snapshot of it can be read"
    raise SnapshotMissing(
        f"bucket {bucket.name!r} was learned to {learned[0]}.{learned[1]}, but {known}: the newer one is damaged, or a "
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
    both = [(name, getattr(fresh, name), getattr(snapshot, name)) for name in LEARNED_WITH]
    return [f"{name} {ours!r} (snapshot: {theirs!r})" for name, ours, theirs in both if ours != theirs]


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
        raise ValueError(f"snapshot {name_of(snapshot)} has {len(whole)} bytes; {MAX_BYTES} are read at most")
    if len(whole) <= chunk_bytes:
        return [snapshot]
    pieces = [whole[start : start + chunk_bytes] for start in range(0, len(whole), chunk_bytes)]
    states = [[StateArray("piece", "|u1", [len(piece)], piece)] for piece in pieces]
    bare = replace(snapshot, theta=b"", state=[], chunks=len(pieces))
    return [replace(bare, state=state, chunk=number) for number, state in enumerate(states)]


def join_chunks(chunks: Sequence[Snapshot]) -> Snapshot:
    """Return the whole snapshot that ``split_snapshot`` has cut, given all its chunks in order."""
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


class Newest:
    """Keeps the newest snapshot of each bucket that is whole and gives the checksum it carries.

    What does not is refused and hides nothing, however high its version. One of an unknown algorithm cannot be judged,
    and is kept apart. Chunks wait for the rest of their snapshot:
    one snapshot of a bucket at a time, and no more bytes of all buckets than one snapshot may have; beyond that those
    that came first are given up.
    """

    def __init__(self, *, loose_bytes: int = MAX_BYTES) -> None:
        self.by_bucket: dict[str, Snapshot] = {}
        self.unknown: dict[str, Snapshot] = {}  # the last one by an algorithm that is not registered here
        self.loose_bytes = 0  # that wait for the rest of their snapshot
        self._most_bytes = loose_bytes
        self._loose: dict[str, dict[int, Snapshot]] = {}  # chunks of one snapshot, by bucket

    def add(self, record: Snapshot) -> bool:
        """Note one record; return whether a newer snapshot of its bucket is now whole, or raise SnapshotCorrupt."""
        known = self.by_bucket.get(record.bucket)
        if known is not None and record.version <= known.version:
            return False
        whole = record if record.chunks == 1 else self._gather(record)
        if whole is None:
            return False
        try:
            verify(whole)
        except AlgorithmUnknown:
            self.unknown[whole.bucket] = whole
            raise
        self._give_up(whole.bucket)
        self.by_bucket[whole.bucket] = whole
        return True

    def forget(self, bucket: str) -> None:
        """Have none of a bucket any more."""
        self.by_bucket.pop(bucket, None)
        self._give_up(bucket)

    def _give_up(self, bucket: str) -> None:
        self.loose_bytes -= sum(_size(chunk) for chunk in self._loose.pop(bucket, {}).values())

    def _gather(self, chunk: Snapshot) -> Snapshot | None:
        bucket = chunk.bucket
        if not (0 <= chunk.chunk < chunk.chunks <= MAX_CHUNKS):
            raise SnapshotCorrupt(f"snapshot {name_of(chunk)} has chunk {chunk.chunk} of {chunk.chunks}")
        known = next(iter(self._loose.get(bucket, {}).values()), chunk)
        if (known.version, known.sha256, known.chunks) != (chunk.version, chunk.sha256, chunk.chunks):
            self._give_up(bucket)  # what is later in the log replaces what never became whole
        chunks = self._loose[bucket] = self._loose.pop(bucket, {})  # now the last to be given up
        self.loose_bytes += _size(chunk) - (_size(chunks[chunk.chunk]) if chunk.chunk in chunks else 0)
        chunks[chunk.chunk] = chunk
        if len(chunks) == chunk.chunks:
            self._give_up(bucket)
            return join_chunks([chunks[number] for number in sorted(chunks)])
        while self.loose_bytes > self._most_bytes:
            self._give_up(next(iter(self._loose)))
        return None


def _size(chunk: Snapshot) -> int:
    return sum(len(part.data) for part in chunk.state)
