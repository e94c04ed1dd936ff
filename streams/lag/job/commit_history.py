"""Commits of groups by partition and time: from the broker's notes, progress records, or by watching."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka import TopicPartition

from streams.broker import TopicState
from streams.lag.commit_records import TOPIC, Committed, GroupPartition
from streams.lag.facts import newest_last
from streams.lag.job.broker import Broker
from streams.lag.job.logs import CommitLog, ProgressLog, forget
from streams.lag.verdict import Window, spoken
from streams.settings import Settings, Topics

ENOUGH_MS = 2_000  # apart: below this nobody minds
LOOKS = 5


class Clocks:
    """How far the broker's clock is ahead of ours, as far as the times of new commits prove it.

    A commit from the future proves that it is ahead. That commits always arrive as if they had been made before the
    last look proves that it is behind; once alone may be a transaction that took its time.

    >>> clocks = Clocks()
    >>> clocks.note(70_000, now_ms=10_000)
    >>> clocks.ahead_ms, clocks.words
    (60000, "the broker's clock is 60 s ahead of this machine's; times here go by the broker's")
    """

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._looked_ms: int | None = None
        self._behind_ms: deque[int] = deque(maxlen=LOOKS)

    def note(self, newest_ms: int, now_ms: int) -> None:
        """Take in the newest time among the commits that came since the last look, 0 when there was none."""
        before, self._looked_ms = self._looked_ms, now_ms
        if not newest_ms:
            return
        self._behind_ms.append(0 if before is None else max(0, before - newest_ms))
        behind = min(self._behind_ms) if len(self._behind_ms) == LOOKS else 0
        ahead = newest_ms - now_ms
        self.ahead_ms = ahead if ahead > ENOUGH_MS else -behind if behind > ENOUGH_MS else 0

    @property
    def words(self) -> str:
        """What to tell about it."""
        side = "ahead of" if self.ahead_ms > 0 else "behind"
        apart = spoken(abs(self.ahead_ms) / 1000)
        return f"the broker's clock is {apart} {side} this machine's; times here go by the broker's"


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
        logs = (self._log, self._progress)
        self._log = self._progress = None
        for log in logs:
            if log is not None:
                log.consumer.close()

    def read(
        self, broker: Broker, topics: Mapping[str, TopicState], now_ms: int
    ) -> dict[str, dict[TopicPartition, list[Committed]]]:
        """Return the commits of each group, the newest last, for each partition that it should read."""
        history, learned = self._history(topics, now_ms), self._learned(topics, now_ms)
        now_ms += self.clocks.ahead_ms
        return {
            watched.name: learned if watched.name == "learn" else self._moves(watched, broker, topics, history, now_ms)
            for watched in self.watched
        }

    def _history(self, states: Mapping[str, TopicState], now_ms: int) -> Mapping[GroupPartition, list[Committed]]:
        """Return the commits of late with their times, as the broker has noted them."""
        since_ms = round(now_ms - 2 * self.window.span_s * 1000)
        self.hidden = ""
        if TOPIC not in states:
            return {}  # nobody has ever committed anything on this cluster
        if not states[TOPIC].readable:
            self.hidden = (
                f"{TOPIC} must not be read, so commit times are hidden and verdicts rest on what is seen from here; "
                "a consumer that commits without moving shows as STOP"
            )
            return {}
        if self._log is None:
            groups = [watched.group for watched in self.watched]
            self._log = CommitLog(self.settings, groups, partitions=states[TOPIC].partitions, since_ms=since_ms)
        self.clocks.note(self._log.catch_up(), now_ms)
        forget(self._log.commits.values(), since_ms)
        return self._log.commits

    def _learned(self, states: Mapping[str, TopicState], now_ms: int) -> dict[TopicPartition, list[Committed]]:
        """Return the learners' progress of late."""
        topic_id, since_ms = states[self.topics.parameters].topic_id, round(now_ms - 2 * self.window.span_s * 1000)
        samples = [TopicPartition(self.topics.samples, each) for each in range(states[self.topics.samples].partitions)]
        if self._progress is None or self._progress_id != topic_id:
            if self._progress is not None:
                self._progress.consumer.close()
            self._progress = ProgressLog(self.settings, self.topics.parameters, range(len(samples)), since_ms=since_ms)
            self._progress_id = topic_id
        self._progress.catch_up()
        forget(self._progress.commits.values(), since_ms)
        commits = self._progress.commits
        return {partition: list(commits.get(partition.partition, [])) for partition in samples}

    def _moves(
        self,
        watched: Watched,
        broker: Broker,
        states: Mapping[str, TopicState],
        history: Mapping[GroupPartition, list[Committed]],
        now_ms: int,
    ) -> dict[TopicPartition, list[Committed]]:
        """Return a group's commits, the newest last, for each partition that it should read."""
        now = broker.committed(watched.group)
        topics = watched.topics or sorted({partition.topic for partition in now} & (states.keys() - {TOPIC}))
        moves = {}
        for topic, number in [(name, at) for name in topics for at in range(states[name].partitions)]:
            partition, key = TopicPartition(topic, number), GroupPartition(watched.group, topic, number)
            if self.hidden:
                self._seen[key] = newest_last(self._seen.get(key, []), now.get(partition), now_ms)[-1000:]
                self._seen[key] = [commit._replace(at_ms=commit.at_ms or now_ms) for commit in self._seen[key]]
            known = (self._seen if self.hidden else history).get(key, [])
            last = self._last.get(key)
            went_back = known and last is not None and last.offset > known[0].offset
            if went_back and last is not None and (last.at_ms or 0) < (known[0].at_ms or 0):
                known.insert(0, last)  # its own commit is long gone, but it went back from there
            moves[partition] = newest_last(known, now.get(partition), now_ms)
            if moves[partition]:
                self._last[key] = moves[partition][-1]._replace(at_ms=now_ms)
        return moves
