"""The model of every bucket and the catalogue, replaced by newer ones while they serve."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import NamedTuple

from learner.bandits import Ranking
from streams.logs import SourceAway
from streams.parameters import SnapshotCorrupt, SnapshotMissing, SnapshotStore, Version
from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.choice import check_scale
from streams.rank.job.catalogues import CatalogueSource
from streams.rank.job.ranker import Ranker, SnapshotUnfit, SnapshotUnsolvable
from streams.settings import Bucket

log = logging.getLogger(__name__)

NOT_YET = (0, -1)  # the version of a model that has learned nothing


class InUse(NamedTuple):
    """A model with its version, of one moment."""

    model: Ranking
    version: Version


class Models:
    """Ranks each bucket with its newest snapshot, or with a fresh model until there is one.

    One thread looks for newer snapshots of all buckets, and for another catalogue. Each is replaced as a whole, so that
    a request which takes one ``in_use`` and one ``catalogue`` is served by no mixture. What is damaged or does not fit
    is refused, and what there is stays.
    """

    def __init__(
        self,
        buckets: Mapping[str, Bucket],
        source: SnapshotStore,
        *,
        catalogue: CatalogueSource | None = None,
        refresh_s: float = 1.0,
    ) -> None:
        self.buckets, self.refresh_s = buckets, refresh_s
        self.rankers: dict[str, Ranker] = {}
        self.catalogue: Catalogue | None = None
        self.catalogues_refused = 0
        self.unanswered: set[str] = set()  # buckets whose snapshots could never be asked for: there may be some
        self._source, self.catalogues = source, catalogue
        self._fresh = {name: InUse(bucket.model(), NOT_YET) for name, bucket in buckets.items()}
        self._said: dict[str, str] = {}
        self._stop = threading.Event()
        self._take_catalogue()
        self.refresh()
        self._thread = threading.Thread(target=self._follow, name="models", daemon=True)
        self._thread.start()

    def in_use(self, bucket: str) -> InUse:
        """Return what ranks for a bucket now."""
        ranker = self.rankers.get(bucket)
        if ranker is None:
            return self._fresh[bucket]
        loaded = ranker.loaded
        return InUse(loaded.model, loaded.snapshot.version)

    def refresh(self) -> None:
        """Look once for newer snapshots and another catalogue."""
        for name, bucket in self.buckets.items():
            if name in self.rankers:
                self.rankers[name].refresh()
                continue
            try:
                self.rankers[name] = Ranker(self._source, bucket=name, fits=bucket, refresh_s=None)
                self.unanswered.discard(name)
            except SourceAway as error:
                self.unanswered.add(name)
                self._say(name, f"bucket {name!r} ranks with a fresh model: {error}")
            except (SnapshotMissing, SnapshotCorrupt, SnapshotUnfit, SnapshotUnsolvable) as error:
                self.unanswered.discard(name)
                self._say(name, f"bucket {name!r} ranks with a fresh model: {error}")
        try:
            self._take_catalogue()
        except CatalogueError as error:
            self.catalogues_refused += 1
            self._say("catalogue", f"the catalogue in use is kept: {error}")

    @property
    def waits_for_catalogue(self) -> bool:
        """Whether there is to be a catalogue, and none has come yet."""
        return self.catalogues is not None and self.catalogue is None

    def _take_catalogue(self) -> None:
        """Take another catalogue over, if there is one; what a bucket could not learn from raises CatalogueError."""
        try:
            catalogue = None if self.catalogues is None else self.catalogues.newest()
        except SourceAway as error:
            self._say("catalogue", f"no look for another catalogue: {error}")
            return
        if catalogue is None:
            return
        for bucket in self.buckets.values():
            try:
                check_scale(catalogue, bucket, user=catalogue.largest_user)
            except ValueError as error:
                raise CatalogueError(str(error)) from error
        self.catalogue = catalogue

    def _say(self, what: str, text: str) -> None:
        if self._said.get(what) != text:
            self._said[what] = text
            log.warning("%s", text)

    def _follow(self) -> None:
        while not self._stop.wait(self.refresh_s):
            try:
                self.refresh()
            except Exception:  # a library's surprise must not end the looking; ranking goes on with what is there
                log.exception("no look for newer snapshots")

    def close(self) -> None:
        """Stop looking and let go of the source."""
        self._stop.set()
        self._thread.join(timeout=10)
        self._source.close()
        if self.catalogues is not None:
            self.catalogues.close()
