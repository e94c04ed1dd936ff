"""Commits of groups by partition and time: from the broker's notes, progress records, or by watching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka import TopicPartition

from streams.broker import Found
from streams.lag.clocks import Clocks
from streams.lag.commit_records import TOPIC, Committed, GroupPartition
from streams.lag.facts import newest_last
from streams.lag.job.broker import Broker
from streams.lag.job.logs import CommitLog, ProgressLog
from streams.lag.verdict import Window
from streams.settings import Settings, Topics


@dataclass(frozen=True, slots=True)
class Watched:
    """A group and the topics that it reads; None for all topics of ours that it has committed to."""

    name: str
    group: str
    topics: tuple[str, ...] | None = None


class CommitHistory:
    """How groups have moved, look after look; what was seen of the past is kept while the broker is away."""

    def __init__(self, settings: Settings, watched: Sequence[Watched], *, window: Window) -> None:
        self.settings, self.watched, self.window = settings, watched, window
        self.topics = Topics.of(settings)
        self.hidden = ""  # why commits are not visible with their times, "" when they are
        self.clocks = Clocks()
        self._seen: dict[GroupPartition, list[Committed]] = {}  # where commit times are hidden
        self._last: dict[GroupPartition, Committed] = {}  # at the last look
        self._log: CommitLog | None = None
        self._progress: ProgressLog | None = None
        self._progress_id = ""

    @property
    def unreadable(self) -> int:
        """How many progress records are none."""
        return self._progress.unreadable if self._progress is not None else 0

    def close(self) -> None:
        """Let go of the connections."""
        held = (self._log, self._progress)
        self._log = self._progress = None
        for one in held:
            if one is not None:
                one.close()

    def read(
        self, broker: Broker, found: Mapping[str, Found], now_ms: int
    ) -> dict[str, dict[TopicPartition, list[Committed]]]:
        """Return the commits of each group, the newest last, for each partition that it should read."""
        history, learned = self._history(found, now_ms), self._learned(found, now_ms)
        now_ms += self.clocks.ahead_ms
        return {one.name: self._moves(one, broker, found, history, learned, now_ms) for one in self.watched}

    def _history(self, found: Mapping[str, Found], now_ms: int) -> Mapping[GroupPartition, list[Committed]]:
        """Return the commits of late with their times, as the broker has noted them."""
        since_ms = round(now_ms - 2 * self.window.span_s * 1000)
        self.hidden = ""
        if TOPIC not in found:
            return {}  # nobody has ever committed anything on this cluster
        if not found[TOPIC].readable:
            self.hidden = (
                f"{TOPIC} must not be read, so commit times are hidden and verdicts rest on what is seen from here; "
                "a consumer that commits without moving shows as STOP"
            )
            return {}
        if self._log is None:
            groups = [one.group for one in self.watched]
            self._log = CommitLog(self.settings, groups, partitions=found[TOPIC].partitions, since_ms=since_ms)
        self.clocks.note(self._log.catch_up(), now_ms)
        self._log.forget(since_ms)
        return self._log.commits

    def _learned(self, found: Mapping[str, Found], now_ms: int) -> Mapping[int, Sequence[Committed]]:
        """Return the learners' progress of late."""
        topic_id, since_ms = found[self.topics.parameters].topic_id, round(now_ms - 2 * self.window.span_s * 1000)
        if self._progress is not None and self._progress_id != topic_id:
            self._progress.close()
            self._progress = None
        if self._progress is None:
            samples = range(found[self.topics.samples].partitions)
            self._progress = ProgressLog(self.settings, self.topics.parameters, samples, since_ms=since_ms)
            self._progress_id = topic_id
        self._progress.catch_up()
        self._progress.forget(since_ms)
        return self._progress.commits

    def _moves(
        self,
        watched: Watched,
        broker: Broker,
        found: Mapping[str, Found],
        history: Mapping[GroupPartition, list[Committed]],
        learned: Mapping[int, Sequence[Committed]],
        now_ms: int,
    ) -> dict[TopicPartition, list[Committed]]:
        """Return a group's commits, the newest last, for each partition that it should read."""
        if watched.name == "learn":
            partitions = [
                TopicPartition(self.topics.samples, number) for number in range(found[self.topics.samples].partitions)
            ]
            return {partition: list(learned.get(partition.partition, [])) for partition in partitions}
        now = broker.committed([watched.group])[watched.group]
        topics = watched.topics or sorted({partition.topic for partition in now} & (found.keys() - {TOPIC}))
        moves = {}
        for partition in [
            TopicPartition(topic, number) for topic in topics for number in range(found[topic].partitions)
        ]:
            key = GroupPartition(watched.group, partition.topic, partition.partition)
            if self.hidden:
                self._seen[key] = newest_last(self._seen.get(key, []), now.get(partition), now_ms)[-1000:]
                self._seen[key] = [one._replace(at_ms=one.at_ms or now_ms) for one in self._seen[key]]
            known = (self._seen if self.hidden else history).get(key, [])
            last = self._last.get(key)
            if (
                known
                and last is not None
                and last.offset > known[0].offset
                and (last.at_ms or 0) < (known[0].at_ms or 0)
            ):
                known.insert(0, last)  # its own commit is long gone, but it went back from there
            moves[partition] = newest_last(known, now.get(partition), now_ms)
            if moves[partition]:
                self._last[key] = moves[partition][-1]._replace(at_ms=now_ms)
        return moves
