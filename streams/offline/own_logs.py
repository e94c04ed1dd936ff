"""Lists out of what Glimpse itself logged, in the same columns as those of a file: from samples, or from raw events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.codec import SchemaError, decode
from schemas.records import Impression, SampleBatch
from streams.join import checkpoints, resumed_join
from streams.logs import LogBlock, LogSource
from streams.offline.logs import LogError, Logs
from streams.offline.net_lists import LoggedList, NetColumns, columns_of
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


def read_own_logs(source: LogSource, settings: Settings, choice: ListChoice) -> tuple[Logs, list[str]]:
    """Return the chosen lists that are learned in the net, in the order in which they were shown, and what to know.

    A corrected list counts as it was corrected, one that was taken back not at all. From events, as from samples, only
    lists that have closed are taken; events are judged by the rules that held when they were read live.
    """
    net = NetColumns(buckets=choice.buckets, from_ms=choice.from_ms, to_ms=choice.to_ms, newest=choice.newest)
    notes: list[str] = []
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
        lists = _with_candidates(source, lists, notes)
    return columns_of(lists, source.where()), notes


def _check_beginning(source: LogSource, topic: str, partition: int, choice: ListChoice, notes: list[str]) -> None:
    """Refuse a samples log without its beginning unless told; raw events are kept for days, so there it is said."""
    first, _ = source.bounds(topic, partition)
    if not first:
        return
    place = f"{topic} {partition} on {source.where()}"
    gone = f"{place} begins at offset {first}: what was before is gone, or was not archived"
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


def _with_candidates(source: LogSource, lists: list[LoggedList], notes: list[str]) -> list[LoggedList]:
    """Return the lists whose impressions say what they were chosen from, with that; all as they are if none does."""
    wanted = {one.place: number for number, one in enumerate(lists)}
    found: dict[int, LoggedList] = {}
    for partition in range(source.partitions("impressions")) if source.has("impressions") else ():
        offsets = [offset for number, offset in wanted if number == partition]
        first, end = source.bounds("impressions", partition)
        if not offsets or max(offsets) < first:
            continue
        for block in source.read("impressions", partition, max(first, min(offsets)), min(end, max(offsets) + 1)):
            for record in block.records():
                number = wanted.get((partition, record.offset))  # type: ignore[call-overload]
                if number is None:
                    continue
                shown = decode(record.value or b"", Impression)  # the join has read it before
                vectors = shown.candidate_contexts_array
                if len(shown.candidate_items) and (len(vectors) or not shown.contexts):
                    found[number] = lists[number]._replace(
                        candidate_items=shown.candidate_items_array, candidate_contexts=vectors
                    )
    if not found:
        return lists
    if len(found) < len(lists):
        notes.append(
            f"{len(lists) - len(found)} of {len(lists)} lists do not say what they were chosen from with its contexts, "
            "or their impressions are gone: they are left out"
        )
    return [found[number] for number in sorted(found)]
