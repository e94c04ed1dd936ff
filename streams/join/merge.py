"""The order in which the two logs of one partition are joined: that of their clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from streams.events import EventReader
from streams.join.clock import LATEST, TopStamps
from streams.join.commit import NEVER, Commit
from streams.join.outbox import Checkpoint
from streams.join.session_join import SessionJoin
from streams.logs import LogBlock, LogRecord
from streams.settings import EVENTS, LogPair, Settings

Read = Callable[[str, int, int], Iterator[LogBlock]]  # topic, first offset, offset to stop before
ALL_TIME_MS = LATEST  # later than any event
ADDERS = LogPair(SessionJoin.add_impressions, SessionJoin.add_clicks)  # each takes the records of one log


def resumed_join(
    settings: Settings, commit: Commit, read: Read, *, known: Mapping[str, bytes], partition: int
) -> SessionJoin:
    """Return a partition's join by the rules that are set, with what it still needs of the events before its commit.

    ``known`` has the rules of former eras by their hash.
    """
    join = SessionJoin.of(settings, EventReader.of(settings), resume=commit, known=known, partition=partition)
    for topic, (add, part) in EVENTS.paired_with(ADDERS.paired_with(commit.logs)):
        for block in read(topic, part.restart.offset, part.processed):
            add(join, block.records(), block.next_offset)
        add(join, [], part.processed)
    return join


def checkpoints(join: SessionJoin, read: Read, stops: Mapping[str, int], *, finish: bool) -> Iterator[Checkpoint]:
    """Yield the checkpoints of all before ``stops``: a block of impressions, then the clicks up to its clock.

    So few clicks have to wait for their list, and a list no longer than the clocks say. ``finish`` closes what is still
    open at the end; without it, lists stay open that the logs' clocks have not passed.
    """
    impressions = read("impressions", join.impressions.offset, stops["impressions"])
    clicks = Ahead(read("clicks", join.clicks.offset, stops["clicks"]), join.clicks.top.copy())
    for block in impressions:
        join.add_impressions(block.records(), block.next_offset)
        for records, next_offset in clicks.until(join.impressions.clock):
            join.add_clicks(records, next_offset)
        if clicks.clock is None:
            clock = join.impressions.clock
        else:
            join.idle(clicks_ms=clicks.clock)  # that of the next click, which is already here
            clock = min(join.impressions.clock, clicks.clock)
        yield join.checkpoint(clock)
    for records, next_offset in clicks.until(ALL_TIME_MS):
        join.add_clicks(records, next_offset)
        yield join.checkpoint(join.clicks.clock)
    join.add_impressions([], stops["impressions"])  # past the markers at the end
    join.add_clicks([], stops["clicks"])
    if finish:
        # Nothing follows, so nothing is waited for. No restart may go on from here: its logs would be past all time.
        join.idle(impressions_ms=ALL_TIME_MS, clicks_ms=ALL_TIME_MS)
    yield join.checkpoint(max(join.impressions.clock, join.clicks.clock))


class Ahead:
    """A log's blocks, of which one is read ahead to give out records only up to a time."""

    def __init__(self, blocks: Iterator[LogBlock], top: TopStamps) -> None:
        self._blocks, self._top = filter(len, blocks), top  # without those that have only markers
        self._load()

    @property
    def clock(self) -> int | None:
        """The log's clock at the next record; None when there is none."""
        return int(self._clocks[self._at]) if self._records else None

    def _load(self) -> None:
        block = next(self._blocks, LogBlock.of([]))
        self._records, self._next_offset, self._at = block.records(), block.next_offset, 0
        stamps = np.clip(block.timestamps_ms, NEVER, LATEST)
        self._clocks = np.array(self._top.clocks(stamps.tolist(), [record.key for record in self._records]))

    def until(self, clock: int) -> Iterator[tuple[list[LogRecord], int]]:
        """Yield the next records at which the log's clock is not beyond ``clock``, and where reading goes on."""
        while (stop := int(np.searchsorted(self._clocks, clock, side="right"))) > self._at:
            records, self._at = self._records[self._at : stop], stop
            if stop < len(self._records):
                yield records, self._records[stop].offset
                return
            next_offset = self._next_offset
            self._load()
            yield records, next_offset
