"""Snapshots and candidates in, ordered lists out; new snapshots are taken over while it serves."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike

from learner.arrays import Floats, Ints
from learner.bandits import Ranking
from schemas.records import Snapshot
from streams.logs import SourceAway
from streams.parameters import (
    DirectoryParameters,
    SnapshotCorrupt,
    SnapshotMissing,
    SnapshotStore,
    Version,
    frozen_model,
    name_of,
)
from streams.parameters.job import KafkaParameters, RedisParameters, open_parameters
from streams.rank.job.metrics import latency, metrics_of
from streams.settings import Bucket, Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot that passed its checksum, ready to rank."""

    snapshot: Snapshot
    model: Ranking


class SnapshotUnsolvable(ArithmeticError):
    """A snapshot whose sums have no θ: more was taken back than learned."""


class SnapshotUnfit(ValueError):
    """A snapshot for contexts of another length."""


class Ranker:
    """Ranks candidates with a bucket's newest snapshot, looked for in the background.

    The last good snapshot is kept: one that is damaged is refused, and a source that is away changes nothing but the
    age. Threads may rank at the same time. ``health_of(ranker, port=9109).start()`` serves the figures of one ranker or
    of several on /metrics.

    Parameters
    ----------
    source
        Where snapshots come from; ``from_kafka``, ``from_redis`` and ``from_directory`` make one.
    bucket
        Whose snapshots.
    refresh_s
        How often to look for a newer one; None never looks, ``refresh()`` does.
    stale_after_s
        The age of a snapshot beyond which ``stale`` is true, and said once in the log.
    clock
        Wall time in seconds.
    fits
        The bucket as it is set: a snapshot for contexts of another length or recipe is refused. None takes any.
    """

    def __init__(
        self,
        source: SnapshotStore,
        *,
        bucket: str,
        fits: Bucket | None = None,
        refresh_s: float | None = 1.0,
        stale_after_s: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.bucket, self.stale_after_s = bucket, stale_after_s
        self._fits = fits
        self.refused = 0  # damaged snapshots
        self.missed = 0  # looks that the source did not answer
        self._source, self._clock = source, clock
        self._said_stale = False
        self.source_up = True  # whether the last look was answered
        self.seconds = latency()
        self._stop = threading.Event()
        self._looking = threading.Lock()
        first = source.newest(bucket)
        if first is None:
            raise SnapshotMissing(f"no model under {source.where(bucket)}; start one: glimpse learn")
        self._loaded = self._load(first)
        self._thread: threading.Thread | None = None
        if refresh_s is not None:
            self._thread = threading.Thread(
                target=self._follow, args=(refresh_s,), name=f"ranker-{bucket}", daemon=True
            )
            self._thread.start()

    @classmethod
    def from_kafka(cls, settings: Settings | str, *, bucket: str, **options: Any) -> Self:
        """Return a ranker that reads the parameters topic; ``settings`` may be just the broker's address."""
        known = settings if isinstance(settings, Settings) else Settings(kafka=settings)
        return cls(KafkaParameters(known), bucket=bucket, **options)

    @classmethod
    def from_redis(cls, settings: Settings | str, *, bucket: str, **options: Any) -> Self:
        """Return a ranker that reads the online store; ``settings`` may be just its URL."""
        known = settings if isinstance(settings, Settings) else Settings(redis=settings)
        return cls(RedisParameters(known), bucket=bucket, **options)

    @classmethod
    def from_directory(cls, path: Path | str, *, bucket: str, **options: Any) -> Self:
        """Return a ranker that reads a directory with one snapshot file per bucket."""
        return cls(DirectoryParameters(path), bucket=bucket, **options)

    @classmethod
    def from_url(cls, source: str, *, bucket: str, settings: Settings | None = None, **options: Any) -> Self:
        """Return a ranker for ``kafka``, ``redis`` (as set), ``kafka://host:port``, ``redis://…`` or a directory."""
        return cls(open_parameters(source, settings), bucket=bucket, **options)

    def rank(self, candidates: ArrayLike, size: int = 12, items: ArrayLike | None = None) -> Ints:
        """Return the rows of the ``size`` best of ``candidates`` (n, d), best first; context-free ones need items."""
        began = time.perf_counter()
        rows = self._loaded.model.rank(candidates, size=size, items=items)
        self.seconds.observe(time.perf_counter() - began)
        return rows

    def scores(self, candidates: ArrayLike, items: ArrayLike | None = None, *, explore: float = 1.0) -> Floats:
        """Return what each candidate is ranked by; ``Bucket.draw`` draws a list from these."""
        return self._loaded.model.scores(candidates, items=items, explore=explore)

    def predict(self, candidates: ArrayLike, items: ArrayLike | None = None) -> Floats:
        """Return the estimated attractiveness of each candidate."""
        return self._loaded.model.predict(candidates, items=items)

    @property
    def loaded(self) -> Loaded:
        """The snapshot in use and its model, of one moment: who asks twice may get two."""
        return self._loaded

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot in use."""
        return self._loaded.snapshot

    @property
    def version(self) -> Version:
        """(epoch, samples offset) of the snapshot in use; an impression carries it."""
        return self.snapshot.version

    @property
    def age_s(self) -> float:
        """Seconds since the snapshot in use was published."""
        return max(0.0, self._clock() - self.snapshot.published_at_ms / 1000)

    @property
    def stale(self) -> bool:
        """Whether the snapshot in use is older than the limit."""
        return self.age_s > self.stale_after_s

    def metrics(self) -> str:
        """Return age, staleness, version, failures and latency in Prometheus' text format; ``health_of`` serves it."""
        return metrics_of([self])

    def refresh(self) -> bool:
        """Look for a newer snapshot once; return whether one is now in use."""
        with self._looking:
            try:
                snapshot = self._source.newest(self.bucket, after=self.version)
                self.source_up = True
                if snapshot is not None:
                    self._loaded = self._load(snapshot)
            except SourceAway as error:
                snapshot = None
                self._miss()
                log.debug("%s", error)
            except (SnapshotCorrupt, SnapshotUnfit, SnapshotUnsolvable) as error:
                snapshot = None
                self._refuse(error)
            self._say_stale()
            return snapshot is not None

    def _miss(self) -> None:
        self.missed += 1
        self.source_up = False

    def _load(self, snapshot: Snapshot) -> Loaded:
        if snapshot.bucket != self.bucket:
            raise SnapshotCorrupt(f"snapshot {name_of(snapshot)} lies where one of {self.bucket!r} should be")
        model = frozen_model(snapshot)
        self._check_contexts(snapshot, model)
        try:
            _ = model.theta  # solved now, so that no request waits for it
        except ArithmeticError as error:
            raise SnapshotUnsolvable(f"snapshot {name_of(snapshot)} cannot rank: {error}") from error
        return Loaded(snapshot, model)

    def _check_contexts(self, snapshot: Snapshot, model: Ranking) -> None:
        if self._fits is None or not model.contextual:
            return
        if model.dim != self._fits.dim:
            wanted = f"contexts have {self._fits.dim}"
            raise SnapshotUnfit(f"snapshot {name_of(snapshot)} has {model.dim} dimensions, {wanted}")
        if self._fits.contexts_sha256 not in ("", snapshot.encoder_sha256):
            learned_from = snapshot.encoder_sha256 or "any contexts"
            raise SnapshotUnfit(
                f"snapshot {name_of(snapshot)} was learned from {learned_from}, not {self._fits.contexts_sha256}"
            )

    def _refuse(self, error: Exception) -> None:
        self.refused += 1
        if self.refused == 1 or self.refused % 1000 == 0:
            log.error("snapshot refused (%d so far), %s is kept: %s", self.refused, name_of(self.snapshot), error)

    def _say_stale(self) -> None:
        if self.stale and not self._said_stale:
            log.warning(
                "%s is %.0f s old, more than the %g s allowed; is `glimpse learn` running, and is there traffic? "
                "%d looks at the source failed, %d snapshots were refused",
                name_of(self.snapshot),
                self.age_s,
                self.stale_after_s,
                self.missed,
                self.refused,
            )
        self._said_stale = self.stale

    def _follow(self, every_s: float) -> None:
        while not self._stop.wait(every_s):
            try:
                self.refresh()
            except Exception:  # a library's surprise must not end the looking; ranking goes on with what is there
                self._miss()
                log.exception("no look at %s", self._source.where(self.bucket))

    def close(self) -> None:
        """Stop looking and let go of the source."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
