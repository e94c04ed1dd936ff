"""Lists out of what Glimpse itself logged, in the same columns as those of a file: from samples, or from raw events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch
from streams.events import Acceptance
from streams.join import Commit, SessionJoin, checkpoints, rebuild_join
from streams.logs import LogBlock, LogSource
from streams.offline.logs import NOTHING, LogError, Logs
from streams.settings import EVENTS, Settings


@dataclass(frozen=True, slots=True)
class ListChoice:
    """Which lists to take."""

    events: bool = False  # join the raw events again, instead of taking the samples that the join wrote
    buckets: tuple[str, ...] = ()  # none: all
    from_ms: int | None = None  # by when a list was shown
    to_ms: int | None = None  # before this

    def takes(self, shown_at_ms: int) -> bool:
        """Return whether a list of that time is meant."""
        return (self.from_ms is None or shown_at_ms >= self.from_ms) and (
            self.to_ms is None or shown_at_ms < self.to_ms
        )


class LoggedList(NamedTuple):
    """One list as it ended up."""

    shown_at_ms: int
    impression_id: str
    items: NDArray[np.int64]
    rewards: NDArray[np.float64]
    contexts: NDArray[np.float32]


def read_own_logs(source: LogSource, settings: Settings, choice: ListChoice) -> tuple[Logs, list[str]]:
    """Return the chosen lists that are learned in the net, in the order in which they were shown, and what to know.

    A corrected list counts as it was corrected, one that was taken back not at all. From events, as from samples, only
    lists that have closed are taken.
    """
    net, notes = NetColumns(choice), []
    topics = EVENTS if choice.events else ("samples",)
    for topic in topics:
        if not source.has(topic):
            raise LogError(f"{source.where()} has no {topic}{'' if choice.events else '; --events reads raw events'}")
    for partition in range(source.partitions(topics[0])):
        for topic in topics:
            first, _ = source.bounds(topic, partition)
            if first:
                place = f"{topic} {partition} on {source.where()}"
                notes.append(f"{place} begins at offset {first}: what was before is gone, or was not archived")
        read = _joined if choice.events else _sampled
        for batch in read(source, settings, partition, notes):
            net.add(batch)
    if net.taken_back_unseen:
        notes.append(f"{net.taken_back_unseen} lists were taken back or corrected that the log does not hold")
    if len(net.buckets) > 1:
        notes.append(f"lists of {', '.join(sorted(net.buckets))} are taken together; --bucket takes those of one")
    lists = net.lists()
    if not lists:
        raise LogError(f"no lists in {' and '.join(topics)} on {source.where()} for these buckets and times")
    return columns_of(lists, source.where()), notes


def _sampled(source: LogSource, settings: Settings, partition: int, notes: list[str]) -> Iterator[SampleBatch]:
    unreadable = 0
    for block in source.read("samples", partition, *source.bounds("samples", partition)):
        for record in block.records():
            try:
                batch: SampleBatch = decode(record.value or b"", SampleBatch)
            except SchemaError:
                unreadable += 1
            else:
                yield batch
    if unreadable:
        notes.append(f"{unreadable} records of samples {partition} cannot be read, and are passed over")


def _joined(source: LogSource, settings: Settings, partition: int, notes: list[str]) -> Iterator[SampleBatch]:
    bounds = {topic: source.bounds(topic, partition) for topic in EVENTS}
    accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))
    begin = Commit.beginning(impressions=bounds["impressions"][0], clicks=bounds["clicks"][0])
    join = SessionJoin(
        accept,
        wait_ms=int(settings.wait_s * 1000),
        lateness_ms=int(settings.lateness_s * 1000),
        resume=begin,
        partition=partition,
    )

    def read(topic: str, start: int, stop: int) -> Iterator[LogBlock]:
        return source.read(topic, partition, start, stop)

    rebuild_join(join, begin, read)
    refused = 0
    for checkpoint in checkpoints(join, read, {topic: stop for topic, (_, stop) in bounds.items()}, finish=False):
        refused += len(checkpoint.dead_letters)
        yield from checkpoint.samples
    if refused:
        notes.append(f"{refused} events of partition {partition} are refused; the reasons: glimpse dead-letters")


class NetColumns:
    """The lists of sample batches as they ended up: corrected, taken back."""

    def __init__(self, choice: ListChoice) -> None:
        self._choice = choice
        self._last: dict[tuple[str, int, int], LoggedList] = {}
        self._net: dict[tuple[str, int, int], int] = {}
        self.buckets: set[str] = set()

    def add(self, batch: SampleBatch) -> None:
        """Take in the chosen lists of a batch."""
        if self._choice.buckets and batch.bucket not in self._choice.buckets:
            return
        ends = np.cumsum(batch.sizes_array.astype(np.int64)).tolist()
        shown, signs = batch.shown_at_ms_array.tolist(), batch.signs_array.tolist()
        items, rewards, contexts = batch.items_array, batch.rewards_array, batch.contexts_array
        places = zip(batch.source_partitions_array.tolist(), batch.source_offsets_array.tolist(), strict=True)
        for number, (start, end, place) in enumerate(zip([0, *ends], ends, places, strict=False)):
            if not self._choice.takes(shown[number]):
                continue
            name = batch.impression_ids[number]
            key = (name, *place)
            self._net[key] = self._net.get(key, 0) + signs[number]
            if signs[number] > 0:
                rows = slice(start, end)
                self._last[key] = LoggedList(shown[number], name, items[rows], rewards[rows], contexts[rows])
                self.buckets.add(batch.bucket)

    @property
    def taken_back_unseen(self) -> int:
        """How many lists were taken back more often than they were added: the log has lost its beginning."""
        return sum(net < 0 for net in self._net.values())

    def lists(self) -> list[LoggedList]:
        """Return the lists in the net, in the order in which they were shown."""
        return sorted((self._last[key] for key, net in self._net.items() if net > 0), key=lambda one: one[:2])


def columns_of(lists: list[LoggedList], name: str) -> Logs:
    """Return lists as columns."""
    sizes = np.array([len(one.items) for one in lists])
    shown = np.arange(sizes.max()) < sizes[:, None]
    item_ids, numbers = np.unique(np.concatenate([one.items for one in lists]), return_inverse=True)
    items = np.full(shown.shape, NOTHING, np.int64)
    items[shown] = numbers
    clicks = np.zeros(shown.shape)
    clicks[shown] = np.concatenate([one.rewards for one in lists])
    dims = {one.contexts.shape[1] for one in lists}
    contexts = None
    if len(dims) == 1 and dims != {0}:
        contexts = np.zeros((*shown.shape, *dims), np.float32)
        contexts[shown] = np.concatenate([one.contexts for one in lists])
    return Logs(
        name=name,
        lines=np.arange(1, len(lists) + 1),
        items=items,
        item_ids=item_ids.tolist(),
        clicks=clicks,
        sizes=sizes,
        queries=None,
        query_ids=[],
        sessions=None,
        contexts=contexts,
        propensities=None,
        position_propensities=None,
    )
