"""Which lists of a bucket to take back, and the samples that do it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from learner import Bandit
from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch
from streams.join import Commit
from streams.learn import samples_of
from streams.ledger.lists import ListName, NetLists, SamplePosition, by_record, take_back
from streams.ledger.selection import Owners, Selection
from streams.logs import LogSource, time_text
from streams.settings import Settings


class UnlearnError(ValueError):
    """Lists that cannot be taken back now."""


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
    owners = Owners(source, selection)
    net = NetLists(selection.from_ms, selection.to_ms, chosen=owners.chosen)
    for offset, batch in read_samples(source, partition, bucket):
        net.add(offset, batch)
    lists, remembered, again_at_ms = [], 0, 0
    horizon_ms = int(settings.horizon_s * 1000)
    learned = net.learned()
    refuse_unknown(owners, {name: shown_at for name, (_, shown_at) in learned.items()}, bucket)
    for name, (position, shown_at) in learned.items():
        if shown_at < forgotten.get(name.partition, -1):
            lists.append(position)
        else:
            remembered, again_at_ms = remembered + 1, max(again_at_ms, shown_at + horizon_ms + 1)
    return Unlearning(bucket, partition, lists, remembered, again_at_ms)


def refuse_unknown(owners: Owners, shown_at: Mapping[ListName, int], bucket: str) -> None:
    """Refuse lists whose session and user nobody knows any more."""
    unknown = [at_ms for name, at_ms in shown_at.items() if owners.unknown(name)]
    if unknown:
        after = time_text((max(unknown) // 1000 + 1) * 1000)
        raise UnlearnError(
            f"{len(unknown)} lists of {bucket} are older than what impressions still hold, so nobody can tell to whom "
            f"they were shown; say --from {after} to leave them out, or name theirs by --impression"
        )


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
    wanted = dict(by_record(plan.lists))
    for offset, batch in read_samples(source, plan.partition, plan.bucket):
        if offset in wanted:
            yield take_back(batch, wanted[offset])


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
