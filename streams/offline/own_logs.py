"""Lists out of what Glimpse itself logged, in the same columns as those of a file: from samples, or from raw events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.evaluate import BEYOND_END
from schemas.codec import SchemaError, decode
from schemas.records import Impression, SampleBatch
from streams.events import EventReader
from streams.join import checkpoints, resumed_join
from streams.logs import LogBlock, LogSource
from streams.offline.logs import CandidateLists, LogError, Logs, spread
from streams.replay import LoggedEras, eras_of
from streams.settings import EVENTS, Settings


@dataclass(frozen=True, slots=True)
class ListChoice:
    """Which lists to take."""

    events: bool = False  # join the raw events again, instead of taking the samples that the join wrote
    buckets: tuple[str, ...] = ()  # none: all
    from_ms: int | None = None  # by when a list was shown
    to_ms: int | None = None  # before this
    truncated: bool = False  # take a samples log that has lost its beginning
    candidates: bool = False  # look up in the impressions what each list was chosen from
    newest: int | None = None  # only so many, those shown last

    def covers(self, shown_at_ms: int) -> bool:
        """Return whether a list was shown within the chosen times."""
        late_enough = self.from_ms is None or shown_at_ms >= self.from_ms
        return late_enough and (self.to_ms is None or shown_at_ms < self.to_ms)


ListKey = tuple[int, int]
"""The partition and the offset of a list's impression."""


class LoggedList(NamedTuple):
    """One list as it ended up."""

    shown_at_ms: int
    impression_id: str
    key: ListKey
    items: NDArray[np.int64]
    rewards: NDArray[np.float64]
    contexts: NDArray[np.float32]
    propensities: NDArray[np.float32]  # of no row where the list was not drawn
    candidate_items: NDArray[np.int64] | None = None
    candidate_contexts: NDArray[np.float32] | None = None


@dataclass(slots=True)
class NetColumns:
    """The lists of sample batches as they ended up: corrected, taken back."""

    choice: ListChoice
    buckets: set[str] = field(default_factory=set)
    _last: dict[tuple[str, ListKey], LoggedList] = field(default_factory=dict)
    _net: dict[tuple[str, ListKey], int] = field(default_factory=dict)

    def add(self, batch: SampleBatch) -> None:
        """Take in the chosen lists of a batch."""
        if self.choice.buckets and batch.bucket not in self.choice.buckets:
            return
        ends = np.cumsum(batch.sizes_array.astype(np.int64)).tolist()
        shown, signs = batch.shown_at_ms_array.tolist(), batch.signs_array.tolist()
        rows = (batch.items_array, batch.rewards_array, batch.contexts_array, batch.propensities_array)
        origins = zip(batch.source_partitions_array.tolist(), batch.source_offsets_array.tolist(), strict=False)
        for number, (start, end, origin) in enumerate(zip([0, *ends], ends, origins, strict=False)):
            if not self.choice.covers(shown[number]):
                continue
            name = batch.impression_ids[number]
            self._net[name, origin] = self._net.get((name, origin), 0) + signs[number]
            if signs[number] > 0:
                columns: list[Any] = [column[start:end] for column in rows]
                self._last[name, origin] = LoggedList(shown[number], name, origin, *columns)
                self.buckets.add(batch.bucket)
        if self.choice.newest is not None and len(self._net) > 4 * self.choice.newest:
            # keep the lists that were shown last, more than are asked for: some may yet be taken back
            kept = sorted(self._last, key=lambda key: self._last[key].shown_at_ms)[-2 * self.choice.newest :]
            self._last = {key: self._last[key] for key in kept}
            self._net = {key: self._net[key] for key in kept}

    @property
    def taken_back_unseen(self) -> int:
        """How many lists were taken back more often than they were added: the log has lost its beginning."""
        return sum(net < 0 for net in self._net.values())

    def lists(self) -> list[LoggedList]:
        """Return the lists in the net, in the order in which they were shown."""
        lists = sorted((self._last[key] for key, net in self._net.items() if net > 0), key=lambda logged: logged[:3])
        return lists if self.choice.newest is None else lists[-self.choice.newest :]


def columns_of(lists: list[LoggedList], name: str) -> Logs:
    """Return lists as columns; candidates and propensities if all lists have them."""
    sizes = np.array([len(logged.items) for logged in lists])
    shown = np.arange(sizes.max()) < sizes[:, None]
    chosen_from = [logged.candidate_items for logged in lists if logged.candidate_items is not None]
    chosen_from = chosen_from if len(chosen_from) == len(lists) else []
    item_ids, numbers = np.unique(
        np.concatenate([*(logged.items for logged in lists), *chosen_from]), return_inverse=True
    )
    dims = {logged.contexts.shape[1] for logged in lists}
    contexts = propensities = None
    if len(dims) == 1 and dims != {0}:
        contexts = spread(shown, np.concatenate([logged.contexts for logged in lists]), 0.0)
    if all(len(logged.propensities) for logged in lists):
        chances = np.concatenate([logged.propensities for logged in lists])
        propensities = spread(shown, chances.astype(np.float64), 1.0)
    vectors = [] if contexts is None else [x for logged in lists if (x := logged.candidate_contexts) is not None]
    others = numbers[sizes.sum() :]
    return Logs(
        name=name,
        lines=np.arange(1, len(lists) + 1),
        items=spread(shown, numbers[: sizes.sum()], BEYOND_END),
        item_ids=item_ids.tolist(),
        clicks=spread(shown, np.concatenate([logged.rewards for logged in lists]), 0.0),
        sizes=sizes,
        contexts=contexts,
        propensities=propensities,
        candidates=CandidateLists.of(others, map(len, chosen_from), vectors) if chosen_from else None,
        names=[logged.impression_id for logged in lists],
    )


def read_own_logs(source: LogSource, settings: Settings, choice: ListChoice) -> tuple[Logs, list[str]]:
    """Return the chosen lists that are learned in the net, in the order in which they were shown, and what to know.

    A corrected list counts as it was corrected, one that was taken back not at all. From events, as from samples, only
    lists that have closed are taken; events are judged by the rules that held when they were read live.
    """
    net, notes = NetColumns(choice), list[str]()
    topics = EVENTS if choice.events else ("samples",)
    for topic in topics:
        if not source.has(topic):
            raise LogError(f"{source.where()} has no {topic}{'' if choice.events else '; --events reads raw events'}")
    eras = eras_of(source, settings, notes) if choice.events else LoggedEras()
    for partition in range(source.partitions(topics[0])):
        for topic in topics:
            _check_beginning(source, topic, partition, choice, notes)
        batches = (
            _joined(source, settings, partition, eras, notes) if choice.events else _sampled(source, partition, notes)
        )
        for batch in batches:
            net.add(batch)
    if net.taken_back_unseen and choice.newest is None:
        notes.append(f"{net.taken_back_unseen} lists were taken back or corrected that the log does not hold")
    if len(net.buckets) > 1:
        notes.append(f"lists of {', '.join(sorted(net.buckets))} are taken together; take those of one by its name")
    lists = net.lists()
    if not lists:
        raise LogError(f"no lists in {' and '.join(topics)} on {source.where()} for these buckets and times")
    if choice.candidates:
        lists = _with_candidates(source, lists, EventReader.of(settings), notes)
    return columns_of(lists, source.where()), notes


def _check_beginning(source: LogSource, topic: str, partition: int, choice: ListChoice, notes: list[str]) -> None:
    """Refuse a samples log without its beginning unless told; raw events are kept for days, so there it is said."""
    first, _ = source.bounds(topic, partition)
    if not first:
        return
    log_name = f"{topic} {partition} on {source.where()}"
    gone = f"{log_name} begins at offset {first}: what was before is gone, or was not archived"
    if topic == "samples" and not choice.truncated and choice.from_ms is None:
        raise LogError(f"{gone}; --truncated takes what is left, --from only lists shown from a time on")
    notes.append(gone)


def _sampled(source: LogSource, partition: int, notes: list[str]) -> Iterator[SampleBatch]:
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


def _joined(
    source: LogSource, settings: Settings, partition: int, eras: LoggedEras, notes: list[str]
) -> Iterator[SampleBatch]:
    bounds = {topic: source.bounds(topic, partition) for topic in EVENTS}
    begin = eras.begin(partition, impressions=bounds["impressions"][0], clicks=bounds["clicks"][0])

    def read(topic: str, start: int, stop: int) -> Iterator[LogBlock]:
        return source.read(topic, partition, start, stop)

    join = resumed_join(settings, begin, read, known=eras.rules, partition=partition)
    refused = 0
    for checkpoint in checkpoints(join, read, {topic: stop for topic, (_, stop) in bounds.items()}, finish=False):
        refused += len(checkpoint.dead_letters)
        yield from checkpoint.samples
    if refused:
        notes.append(f"{refused} events of partition {partition} are refused; the reasons: glimpse dead-letters")


def _with_candidates(
    source: LogSource, lists: list[LoggedList], reader: EventReader, notes: list[str]
) -> list[LoggedList]:
    """Return the lists whose impressions say what they were chosen from, with that; all as they are if none does."""
    wanted = {logged.key: number for number, logged in enumerate(lists)}
    kept: dict[int, LoggedList] = {}
    for partition in range(source.partitions("impressions")) if source.has("impressions") else ():
        offsets = [offset for number, offset in wanted if number == partition]
        first, end = source.bounds("impressions", partition)
        if not offsets or max(offsets) < first:
            continue
        for block in source.read("impressions", partition, max(first, min(offsets)), min(end, max(offsets) + 1)):
            for record in block.records():
                number = wanted.get((partition, record.offset))
                if number is None:
                    continue
                shown = reader.event(record.value, Impression)  # the join has read it before
                vectors = shown.candidate_contexts_array
                if len(shown.candidate_items) and (len(vectors) or not shown.contexts):
                    kept[number] = lists[number]._replace(
                        candidate_items=shown.candidate_items_array, candidate_contexts=vectors
                    )
    if not kept:
        return lists
    if len(kept) < len(lists):
        notes.append(
            f"{len(lists) - len(kept)} of {len(lists)} lists do not say what they were chosen from with its contexts, "
            "or their impressions are gone: they are left out"
        )
    return [kept[number] for number in sorted(kept)]
