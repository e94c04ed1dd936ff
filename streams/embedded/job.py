"""The embedded runner: join, learners and rankers in one process on a directory, without any server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from schemas.codec import encode
from schemas.records import DeadLetter, Impression, Rules, Snapshot
from streams.broker import partition_of
from streams.embedded.logs import EmbeddedLogs
from streams.events import Event, codec_of
from streams.join import ADDERS, Checkpoint, Commit, Ledger, SessionJoin, resumed_join
from streams.learn import Durable, PartitionLearner, SamplesPartition
from streams.logs import Archive, LogBlock, cut_to_fit
from streams.parameters import ConfigChanged, DirectoryParameters
from streams.rank.job import Ranker
from streams.settings import EVENTS, Settings

Payload = tuple[bytes | None, bytes | None]


class StepFailed(RuntimeError):
    """A loop that knows more than its files, since a step failed."""


class Embedded:
    """The whole loop in one process: the same join, learners and rankers as on Kafka, on files.

    The caller owns the clock. ``append`` stamps events as a broker would, ``step`` does all that is due: it closes and
    corrects lists, learns them, and publishes a snapshot of each bucket that changed. Killed at any instant and made
    again on the same directory, it goes on as if nothing had happened; events that were appended count. What ``append``
    could not write (a full disk) may be appended again. After an error in ``step`` it must be made again.

    Parameters
    ----------
    path
        The directory: an archive of all topics, and ``snapshots`` for rankers.
    settings
        Buckets, wait, lateness and the tolerance for events from the future.
    partitions
        Of every topic; more than 1 only to look like a deployment.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from streams.events import click_of, impression_of
    >>> from streams.settings import Bucket
    >>> shown = impression_of([7, 9], [[1.0], [0.5]], impression_id="i", session_id="s", bucket="main", user_id="u",
    ...                       shown_at_ms=1_000)
    >>> clicked = click_of(impression_id="i", session_id="s", position=2, clicked_at_ms=2_000)
    >>> bucket = Bucket("main", algorithm="c2ucb", dim=1, positions=2)
    >>> with TemporaryDirectory() as folder, Embedded(folder, Settings(buckets={"main": bucket}, wait_s=60)) as loop:
    ...     loop.append([shown, clicked], at_ms=2_000)
    ...     _ = loop.step(now_ms=70_000)
    ...     loop.ranker("main").predict([[1.0]])
    array([0.15384615])
    """

    def __init__(
        self,
        path: Path | str,
        settings: Settings,
        *,
        partitions: int | None = None,
        codec: str | None = None,
        sync: bool = False,
    ) -> None:
        self.settings, self._codec, self._stepping = settings, codec_of(settings), False
        with ExitStack() as opened:
            opened.enter_context(Archive(path).writing())
            self.logs = EmbeddedLogs(path, partitions=partitions, codec=codec, sync=sync)
            opened.callback(self.logs.close)
            self.snapshots = DirectoryParameters(Path(path) / "snapshots")
            self._begin()
            self._opened = opened.pop_all()

    def _begin(self) -> None:
        if not self.logs.commits:
            nothing = [Commit.beginning()] * self.logs.partitions
            self.logs.commit(nothing, now_ms=0)
        self._joins = [self._join(number) for number in range(self.logs.partitions)]
        self._learners = [self._learner(number) for number in range(self.logs.partitions)]

    def _join(self, partition: int) -> SessionJoin:
        commit, known = self.logs.commits[partition], {rules.hash: rules.rules for rules in self.logs.rules}

        def read(topic: str, start: int, stop: int) -> Iterator[LogBlock]:
            return self.logs.archive.log(topic, partition).read(start, stop)

        join = resumed_join(self.settings, commit, read, known=known, partition=partition)
        for topic, (add, part) in EVENTS.paired_with(ADDERS.paired_with(commit.logs)):
            for block in self.logs.archive.log(topic, partition).read(part.processed):  # appended, not yet joined
                add(join, block.records(), block.next_offset)
        return join

    def _learner(self, partition: int) -> PartitionLearner:
        log = SamplesPartition("samples", self.logs.archive.info("samples").topic_id, partition, self.logs.partitions)
        ours = {
            name: bucket
            for name, bucket in self.settings.buckets.items()
            if partition_of(bucket.learns_from, self.logs.partitions) == partition
        }
        known = {name: snapshot for name in ours if (snapshot := self.snapshots.newest(name)) is not None}
        learner = PartitionLearner(ours, log, Durable(known))
        for reason in learner.held.values():
            raise ConfigChanged(reason)
        behind = min((state.stamp for state in learner.states.values()), default=0)
        for block in self.logs.archive.log("samples", partition).read(behind):
            learner.apply(block.records())
        learner.dead_letters.clear()  # they were written with the commit that these samples came with
        self._publish(learner, self.logs.now_ms)
        return learner

    def append(self, events: Iterable[Event], *, at_ms: int) -> None:
        """Log impressions and clicks as records stamped ``at_ms``, which must not lie before the last step."""
        self._check()
        if at_ms < self.logs.now_ms:
            raise ValueError(
                f"the clock stood at {self.logs.now_ms} in the last step, so {at_ms} is past; append later"
            )
        waiting: dict[Any, list[Payload]] = {}
        impressions, clicks = EVENTS.paired_with(ADDERS)
        for event in events:
            log = impressions if isinstance(event, Impression) else clicks
            partition = partition_of(event.session_id, self.logs.partitions) if self.logs.partitions > 1 else 0
            waiting.setdefault((*log, partition), []).append((event.session_id.encode(), self._codec.encode(event)))
        for (topic, add, partition), payloads in waiting.items():
            add(self._joins[partition], self.logs.append(topic, partition, payloads, at_ms))

    def step(self, now_ms: int) -> list[Snapshot]:
        """Close, join, learn and publish what is due at ``now_ms``; return the new snapshots."""
        self._check()
        if now_ms < self.logs.now_ms:
            raise ValueError(f"the clock stood at {self.logs.now_ms} in the last step, so it cannot be {now_ms}")
        self._stepping, commits, rules = True, list[Commit](), list[Rules]()
        for partition, join in enumerate(self._joins):
            join.idle(impressions_ms=now_ms, clicks_ms=now_ms)
            checkpoint = join.checkpoint(now_ms)
            self._write(checkpoint, partition, now_ms)
            commits.append(checkpoint.commit)
            rules += checkpoint.rules
        for learner in self._learners:
            self._dead_letters(learner.log.partition, learner.dead_letters, now_ms)
            learner.dead_letters.clear()
        self.logs.commit(commits, now_ms, rules)
        # Only now: a snapshot must never hold samples that a crash could still take back.
        published = [snapshot for learner in self._learners for snapshot in self._publish(learner, now_ms)]
        self._stepping = False
        return published

    def _check(self) -> None:
        if self._stepping:  # the lists that it closed are in no file, and would be lost with the next commit
            raise StepFailed(f"the last step on {self.logs.archive.path} failed; close it and open it again")

    def _write(self, checkpoint: Checkpoint, partition: int, now_ms: int) -> None:
        by_home: dict[int, list[Payload]] = {}
        for batch in checkpoint.samples:
            of_bucket = by_home.setdefault(partition_of(batch.bucket, self.logs.partitions), [])
            of_bucket.append((batch.bucket.encode(), encode(batch)))
        for number, payloads in by_home.items():
            self._learners[number].apply(self.logs.append("samples", number, payloads, now_ms))
        self._dead_letters(partition, checkpoint.dead_letters, now_ms)
        self.logs.append(
            "late-clicks", partition, [(click.key, click.value) for click in checkpoint.late_clicks], now_ms
        )

    def _dead_letters(self, partition: int, letters: Iterable[DeadLetter], now_ms: int) -> None:
        payloads = [(f"{letter.topic}-{letter.partition}".encode(), encode(cut_to_fit(letter))) for letter in letters]
        self.logs.append("dead-letters", partition, payloads, now_ms)

    def _publish(self, learner: PartitionLearner, now_ms: int) -> list[Snapshot]:
        snapshots = learner.publish(now_ms).snapshots
        for snapshot in snapshots:
            self.snapshots.put(snapshot, encode(snapshot))
        return snapshots

    def ranker(self, bucket: str, *, refresh_s: float | None = None, **options: Any) -> Ranker:
        """Return a ranker of a bucket's snapshots; it looks for newer ones when its ``refresh`` is called."""
        return Ranker.from_directory(self.snapshots.path, bucket=bucket, refresh_s=refresh_s, **options)

    @property
    def ledgers(self) -> Mapping[int, Ledger]:
        """What became of the events of each partition."""
        return {number: join.ledger for number, join in enumerate(self._joins)}

    def close(self) -> None:
        """Let go of the directory; nothing is lost."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
