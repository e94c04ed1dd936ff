"""Which lists of a bucket to take back (by time, id, session or user), and the samples that do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from learner import Bandit
from schemas.codec import SchemaError, decode
from schemas.records import Impression, SampleBatch
from streams.events import EventReader
from streams.join import Commit
from streams.learn import samples_of, some_lists
from streams.ledger.balance import ListName, names
from streams.logs import LogSource, time_text
from streams.settings import Settings

EVER_MS = 1 << 62


class UnlearnError(ValueError):
    """Lists that cannot be taken back now."""


class SamplePosition(NamedTuple):
    """Where a list is in the samples log."""

    offset: int
    number: int  # of the list in its record


@dataclass(frozen=True, slots=True)
class Selection:
    """Lists shown in a range of time; if any ids, sessions or users are named, only those of one of them."""

    from_ms: int = -EVER_MS
    to_ms: int = EVER_MS
    impressions: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    @property
    def by_person(self) -> bool:
        """Whether sessions or users are named, which samples do not know: the raw events must tell whose a list is."""
        return bool(self.sessions or self.users)


class Owners:
    """Whose lists are whose, as far as the impressions log still tells."""

    def __init__(self, source: LogSource, selection: Selection, reader: EventReader) -> None:
        self._selection, self._reader = selection, reader
        partitions = range(source.partitions("impressions")) if selection.by_person else ()
        self._first = {partition: source.bounds("impressions", partition)[0] for partition in partitions}
        self._theirs = {name for partition in partitions for name in self._read(source, partition)}

    def _read(self, source: LogSource, partition: int) -> Iterator[ListName]:
        sessions, users = self._selection.sessions, self._selection.users
        for block in source.read("impressions", partition, *source.bounds("impressions", partition)):
            for record in block.records():
                shown = self._reader.event_or_none(record.value, Impression)
                if shown is not None and (shown.session_id in sessions or shown.user_id in users):
                    yield ListName(shown.impression_id, partition, record.offset)

    def chosen(self, name: ListName) -> bool:
        """Return whether a list is selected, or may be."""
        if not (self._selection.impressions or self._selection.by_person):
            return True
        return name.impression_id in self._selection.impressions or name in self._theirs or self.unknown(name)

    def unknown(self, name: ListName) -> bool:
        """Return whether nobody can tell any more to whom a list was shown."""
        named = name.impression_id in self._selection.impressions
        return self._selection.by_person and not named and name.offset < self._first.get(name.partition, EVER_MS)


@dataclass(frozen=True, slots=True)
class Unlearning:
    """What would be taken back."""

    bucket: str
    partition: int  # of the samples
    lists: list[SamplePosition]
    remembered: int  # selected lists that the join may still correct, and that are left alone
    again_at_ms: int  # when the youngest of those will be forgotten, by the logs' clocks

    def __str__(self) -> str:
        text = f"{self.bucket}: {len(self.lists)} lists to take back"
        if self.remembered:
            text += (
                f"; {self.remembered} more are left alone, since a late click could still correct them: "
                f"run it again once the logs have passed {time_text(self.again_at_ms)}"
            )
        return text


def plan_unlearning(
    source: LogSource,
    settings: Settings,
    *,
    bucket: str,
    partition: int,
    selection: Selection,
    commits: Mapping[int, Commit],
) -> Unlearning:
    """Return the selected lists of a bucket that are learned, and that no click can change any more.

    ``partition`` is that of the bucket's samples, ``commits`` are the join's last ones. Lists of which nobody can tell
    any more whose they were are refused, not passed over. An open transaction would hide what another one took back or
    corrected since it began, so it is waited for.
    """
    if bucket not in settings.buckets:
        raise UnlearnError(f"no bucket {bucket!r} in the settings; there: {', '.join(settings.buckets) or 'none'}")
    if not selection.from_ms < selection.to_ms:
        raise UnlearnError(f"the range from {time_text(selection.from_ms)} to {time_text(selection.to_ms)} is empty")
    if not commits:
        raise UnlearnError(
            f"no join has committed on {source.where()}, so nobody knows which lists are closed for good"
        )
    forgotten = {number: min(commit.impressions.floor, commit.clicks.floor) for number, commit in commits.items()}
    source.settle("samples", partition)  # after the commits, so that all that they count is seen
    owners = Owners(source, selection, EventReader.of(settings))
    learned = net_lists(read_samples(source, partition, bucket), selection, owners.chosen)
    if unknown := [shown_at for name, (_, shown_at) in learned.items() if owners.unknown(name)]:
        after = time_text((max(unknown) // 1000 + 1) * 1000)
        raise UnlearnError(
            f"{len(unknown)} lists of {bucket} are older than what impressions still hold, so nobody can tell to whom "
            f"they were shown; say --from {after} to leave them out, or name theirs by --impression"
        )
    lists, open_until = [], list[int]()
    for name, (position, shown_at) in learned.items():
        if shown_at < forgotten.get(name.partition, -1):
            lists.append(position)
        else:
            open_until.append(shown_at + int(settings.horizon_s * 1000) + 1)
    return Unlearning(bucket, partition, lists, len(open_until), max(open_until, default=0))


def net_lists(
    samples: Iterable[tuple[int, SampleBatch]],
    selection: Selection,
    chosen: Callable[[ListName], bool] = lambda name: True,
) -> dict[ListName, tuple[SamplePosition, int]]:
    """Return which chosen lists of a range of time are learned in the net, with the last version added and shown-at.

    A correction takes the old version back and adds the new one, so the last version that was added is the one to take
    back; a list that was taken back already is not there any more.
    """
    seen: dict[ListName, tuple[int, SamplePosition, int]] = {}  # net, last version added, shown at
    for offset, batch in samples:
        shown = batch.shown_at_ms_array
        inside = np.flatnonzero((shown >= selection.from_ms) & (shown < selection.to_ms)).tolist()
        list_names, signs = names(batch) if inside else [], batch.signs_array.tolist()
        for index in inside:
            name, position = list_names[index], SamplePosition(offset, index)
            if chosen(name):
                net, last, _ = seen.get(name, (0, position, 0))
                seen[name] = net + signs[index], position if signs[index] > 0 else last, int(shown[index])
    if wrong := {name: net for name, (net, _, _) in seen.items() if net not in (0, 1)}:
        name, net = next(iter(wrong.items()))
        was = (
            "taken back more often than learned (or the samples that they were learned from are deleted)"
            if net < 0
            else "learned more than once (was the join started from a time before its commit?)"
        )
        raise UnlearnError(
            f"{len(wrong)} lists of the range are not once or never in the samples; the first, "
            f"{name.impression_id!r} of impressions {name.partition} at offset {name.offset}, is there {net} times "
            f"in the net: {was}. So nothing is taken back; glimpse ledger tells how many of each bucket, and "
            "glimpse replay kafka --events what the bucket should hold"
        )
    return {name: (position, shown_at) for name, (net, position, shown_at) in seen.items() if net == 1}


def read_samples(source: LogSource, partition: int, bucket: str) -> Iterator[tuple[int, SampleBatch]]:
    """Yield the sample batches of a bucket with their offsets."""
    for block in source.read("samples", partition, *source.bounds("samples", partition)):
        for record in block.records():
            if record.key == bucket.encode():
                try:
                    batch: SampleBatch = decode(record.value or b"", SampleBatch)
                except SchemaError:
                    continue  # the learner refused it too
                if batch.bucket == bucket:
                    yield record.offset, batch


def batches_of(source: LogSource, plan: Unlearning) -> Iterator[SampleBatch]:
    """Yield what has to be learned so that the lists of a plan are as if they had never been."""
    wanted: dict[int, list[int]] = {}
    for position in plan.lists:
        wanted.setdefault(position.offset, []).append(position.number)
    for offset, batch in read_samples(source, plan.partition, plan.bucket):
        if offset in wanted:
            yield take_back(batch, wanted[offset])


def take_back(batch: SampleBatch, indices: Iterable[int]) -> SampleBatch:
    """Return some lists of a batch, to be taken back."""
    chosen = some_lists(batch, list(indices))
    return replace(chosen, signs=np.full(len(chosen.sizes), -1, np.int8).tobytes())


def effect(model: Bandit, batches: Iterator[SampleBatch]) -> str:
    """Take lists back from a model, and return in words what that changes."""
    before, rounds = model.theta.copy(), model.rounds
    rows = clicks = 0
    for batch in batches:
        model.learn(samples_of(batch))
        rows += len(batch.positions)
        clicks += int(np.count_nonzero(batch.rewards_array))
    text = f"{rows} rows with {clicks} clicks; lists learned {rounds} → {model.rounds}"
    if model.dim:
        moved = float(np.linalg.norm(model.theta - before))
        text += f"; θ moves by {moved:.6g} from a length of {float(np.linalg.norm(before)):.6g}"
    return text
