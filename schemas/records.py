"""What travels: one frozen class per .avsc, field by field.

Columns are little-endian numbers packed in ``bytes``, so that a stage may join many and read them with one
``np.frombuffer``; the ``*_array`` attributes are read-only views of those bytes, without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)


class Packed(Generic[Number]):
    """The numbers of a packed column: ``items_array`` are those of ``items``."""

    def __init__(self, kind: type[Number]) -> None:
        self._dtype = np.dtype(kind).newbyteorder("<")

    def __set_name__(self, owner: type, name: str) -> None:
        self._column = name.removesuffix("_array")

    def __get__(self, record: object, owner: type) -> NDArray[Number]:
        return np.frombuffer(getattr(record, self._column), self._dtype)


class Impression(msgspec.Struct, frozen=True):
    """One list that was shown; a Struct, since making one takes a tenth of the time of a frozen dataclass."""

    impression_id: str
    session_id: str
    bucket: str
    user_id: str
    shown_at_ms: int
    items: bytes  # int64[K]
    contexts: bytes  # float32[K, d], raw
    rendered: int
    ranked_by_epoch: int = 0
    ranked_by_offset: int = -1
    split_version: str = ""
    catalogue: str = ""
    propensities: bytes = b""  # float32[K], of each item given those above; b"" when the list was not drawn
    candidate_items: bytes = b""  # int64[n], those shown included; b"" when not said
    candidate_contexts: bytes = b""  # float32[n, d]; b"" when they are the catalogue's

    items_array = Packed(np.int64)
    propensities_array = Packed(np.float32)
    candidate_items_array = Packed(np.int64)

    @property
    def at_ms(self) -> int:
        """When it happened."""
        return self.shown_at_ms

    @property
    def size(self) -> int:
        """Number of items, K."""
        return len(self.items) // 8

    @property
    def contexts_array(self) -> NDArray[np.float32]:
        """Contexts, one row per item."""
        return np.frombuffer(self.contexts, "<f4").reshape(self.size, -1)

    @property
    def candidate_contexts_array(self) -> NDArray[np.float32]:
        """Contexts of the candidates, one row each, as long as those of the list; no rows when not said."""
        return np.frombuffer(self.candidate_contexts, "<f4").reshape(-1, max(1, len(self.contexts) // (4 * self.size)))


class Click(msgspec.Struct, frozen=True):
    """One tap on one position (1-based) of a list."""

    impression_id: str
    session_id: str
    position: int
    clicked_at_ms: int
    reward: float = 1.0

    @property
    def at_ms(self) -> int:
        """When it happened."""
        return self.clicked_at_ms


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Finished lists of one bucket, in columns: some with an entry per row, some with an entry per list."""

    bucket: str
    dim: int
    items: bytes  # int64[rows]
    positions: bytes  # uint8[rows], 1-based, ascending within a list
    last_clicks: bytes  # uint8[rows], 0 = none
    rewards: bytes  # float64[rows], raw
    contexts: bytes  # float32[rows, dim], raw
    impression_ids: list[str]
    sizes: bytes  # uint8[lists]
    signs: bytes  # int8[lists], 1 learns and -1 takes back
    shown_at_ms: bytes  # int64[lists]
    source_partitions: bytes  # int32[lists]
    source_offsets: bytes  # int64[lists]
    ranked_by_epochs: bytes  # int32[lists]
    ranked_by_offsets: bytes  # int64[lists]
    split_version: str = ""  # of all lists
    user_hashes: bytes = b""  # uint64[lists], 0 = none; b"" when no list says more than its rows
    propensities: bytes = b""  # float32[rows]; b"" when the lists were not drawn

    items_array = Packed(np.int64)
    positions_array = Packed(np.uint8)
    last_clicks_array = Packed(np.uint8)
    rewards_array = Packed(np.float64)
    sizes_array = Packed(np.uint8)
    signs_array = Packed(np.int8)
    shown_at_ms_array = Packed(np.int64)
    source_partitions_array = Packed(np.int32)
    source_offsets_array = Packed(np.int64)
    ranked_by_epochs_array = Packed(np.int32)
    ranked_by_offsets_array = Packed(np.int64)
    user_hashes_array = Packed(np.uint64)
    propensities_array = Packed(np.float32)

    @property
    def contexts_array(self) -> NDArray[np.float32]:
        """Raw context of each row."""
        return np.frombuffer(self.contexts, "<f4").reshape(len(self.positions), self.dim)


@dataclass(frozen=True, slots=True)
class StateArray:
    """One named array of a model's state."""

    name: str
    dtype: str  # little-endian numpy type, such as <i8
    shape: list[int]
    data: bytes  # in C order

    @classmethod
    def of(cls, name: str, array: NDArray[Any]) -> StateArray:
        """Return ``array`` packed under ``name``.

        >>> StateArray.of("counts", np.arange(6).reshape(2, 3)).array
        array([[0, 1, 2],
               [3, 4, 5]])
        """
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
        return cls(name, little.dtype.str, list(array.shape), little.tobytes())

    @property
    def array(self) -> NDArray[Any]:
        """The numbers, in their shape."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A published model, whole or one of several chunks."""

    bucket: str
    algorithm: str
    epoch: int
    samples_offset: int
    theta: bytes  # float64
    rounds: int
    positions: int
    dim: int
    ridge: float  # λ
    beta: float  # β
    phi: float  # φ′
    alpha: float | None  # None is the theorem's rule
    context_scale: float
    reward_scale: float
    examination_sha256: str
    encoder_sha256: str  # "" when there is none
    samples_topic_id: str
    samples_partition: int
    state: list[StateArray]
    sha256: str
    published_at_ms: int
    chunk: int = 0
    chunks: int = 1
    options: str = ""  # JSON: what only this algorithm can be set to

    theta_array = Packed(np.float64)

    @property
    def version(self) -> tuple[int, int]:
        """What grows: the epoch, then the samples offset."""
        return self.epoch, self.samples_offset

    @property
    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """The model's state by name, as ``model.restore`` takes it."""
        return {part.name: part.array for part in self.state}


@dataclass(frozen=True, slots=True)
class BucketStamp:
    """The version of a bucket's newest snapshot."""

    bucket: str
    epoch: int
    samples_offset: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one samples partition has been learned."""

    samples_topic_id: str
    samples_partition: int
    next_offset: int
    published_at_ms: int
    stamps: list[BucketStamp]  # of every bucket learned here
    refused_to: int  # what was refused below has its dead letter

    @property
    def versions(self) -> dict[str, tuple[int, int]]:
        """The version of each bucket's newest snapshot."""
        return {stamp.bucket: (stamp.epoch, stamp.samples_offset) for stamp in self.stamps}


@dataclass(frozen=True, slots=True)
class JoinStart:
    """Where the join began, one decision for all partitions."""

    impressions_topic_id: str
    clicks_topic_id: str
    impressions: list[int]  # the first offset of each partition; -1: it had begun before this was written
    clicks: list[int]

    @property
    def topic_ids(self) -> tuple[str, str]:
        """Of impressions and clicks."""
        return self.impressions_topic_id, self.clicks_topic_id


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What was refused, and why."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    reason: str


@dataclass(frozen=True, slots=True)
class Rules:
    """By which rules the events of one partition were judged, from two offsets on."""

    hash: str
    rules: bytes  # canonical JSON
    topic_id: str
    partition: int
    impressions_from: int
    clicks_from: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """Other parameters of one bucket, in force over the settings from their epoch on."""

    bucket: str
    epoch: int
    settings: bytes  # canonical JSON
    before: bytes  # the same of what was learned with before; none: not known
    written_at_ms: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """An epoch that is being learned and serves nobody before it has caught up with the log."""

    snapshot: bytes  # of a Snapshot record, whole or a chunk


Record = Impression | Click | SampleBatch | Snapshot | Progress | JoinStart | DeadLetter | Rules | Rollout | Candidate
