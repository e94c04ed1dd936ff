"""One partition's share of a replay; stopped at any time, it goes on from its file."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from learner import Bandit
from schemas.codec import SchemaError, decode
from schemas.json_text import parse_json
from schemas.records import SampleBatch, StateArray
from streams.join import Commit, Ledger, checkpoints, resumed_join
from streams.learn import learn_lists
from streams.logs import ArchiveError, LogBlock, SourceAway, replace_file
from streams.logs.job import open_source
from streams.replay.plan import ReplayError, ReplayPlan
from streams.settings import EVENTS, Bucket

SAVE_EVERY_S = 5.0


class Interrupted(Exception):
    """The replay was told to stop; what was done is in its file."""


@dataclass(slots=True)
class Part:
    """What one partition has given so far."""

    models: dict[str, Bandit]
    passed: int = 0  # offsets
    lists: int = 0
    rows: int = 0
    refused: int = 0
    reason: str = ""  # of the first refusal
    next_offset: int | None = None
    commit: Commit | None = None
    ledger: Ledger = field(default_factory=Ledger)
    done: bool = False

    def learn(self, batch: SampleBatch, buckets: Mapping[str, Bucket]) -> None:
        """Learn a batch in its bucket, unless that is left out, and in its shadows.

        Lists that do not fit are refused, as the learner does live; what a shadow refuses is not counted, as there.
        """
        for name, model in self.models.items():
            if buckets[name].host == batch.bucket:
                learn_lists(model, batch)
        own = self.models.get(batch.bucket)
        if own is None:
            return
        dim = buckets[batch.bucket].dim
        if batch.dim != dim and own.dim:
            self.refuse(f"contexts have {batch.dim} features, bucket {batch.bucket!r} has {dim}")
            return
        refused = learn_lists(own, batch)
        for reason in refused.values():
            self.refuse(reason)
        learned = np.ones(len(batch.impression_ids), np.bool_)
        learned[list(refused)] = False
        self.lists += int(batch.signs_array[learned].sum())
        self.rows += int(batch.sizes_array[learned].sum())

    def refuse(self, reason: str) -> None:
        """Count something that could not be learned."""
        self.refused += 1
        self.reason = self.reason or reason

    def save(self, path: Path, fingerprint: str) -> None:
        """Write the part as a whole, to go on from it."""
        content: dict[str, Any] = {"fingerprint": fingerprint, "ledger": asdict(self.ledger)}
        for name in ("passed", "lists", "rows", "refused", "reason", "next_offset", "done"):
            content[name] = getattr(self, name)
        content["commit"] = None if self.commit is None else self.commit.encode(most_bytes=1 << 30)
        content["models"] = {bucket: _state(model) for bucket, model in self.models.items()}
        replace_file(path, json.dumps(content).encode())

    @classmethod
    def load(cls, path: Path, plan: ReplayPlan) -> Part:
        """Return the part as it was saved, or a new one."""
        part = cls({name: bucket.model() for name, bucket in plan.buckets.items()})
        try:
            content = parse_json(path.read_bytes())
            if content.pop("fingerprint") != plan.fingerprint:
                raise ReplayError(
                    f"{path} is of another replay (of another source, range or parameters); delete it to begin anew"
                )
            for bucket, state in content.pop("models").items():
                part.models[bucket].restore({name: _array(entry) for name, entry in state.items()})
            part.ledger = Ledger(**content.pop("ledger"))
            commit = content.pop("commit")
            part.commit = None if commit is None else Commit.decode(*map(tuple, commit))[0]
            for name, value in content.items():
                setattr(part, name, value)
        except FileNotFoundError:
            return part
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ReplayError):
                raise
            raise ReplayError(f"{path} cannot be read ({error}); delete it to begin anew") from error
        return part


def _state(model: Bandit) -> dict[str, list[Any]]:
    parts = [StateArray.of(name, array) for name, array in model.state().items()]
    return {part.name: [part.dtype, part.shape, base64.b64encode(part.data).decode()] for part in parts}


def _array(entry: list[Any]) -> Any:
    dtype, shape, data = entry
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)


def replay_part(
    plan: ReplayPlan, partition: int, file: Path, *, say: Callable[[int], None], stopping: Callable[[], bool]
) -> Part:
    """Replay one partition to its end, or until ``stopping`` raises Interrupted; ``say`` gets the offsets passed."""
    part, fingerprint, saved_at = Part.load(file, plan), plan.fingerprint, time.monotonic()
    if not part.done:
        try:
            for _ in (_join if len(plan.topics) > 1 else _read)(plan, partition, part, say):
                if stopping():
                    raise Interrupted
                if time.monotonic() - saved_at > SAVE_EVERY_S:
                    part.save(file, fingerprint)
                    saved_at = time.monotonic()
        except (Interrupted, ArchiveError, SourceAway):  # all come between two steps, so the part is whole
            part.save(file, fingerprint)
            raise
        part.done = True
        part.save(file, fingerprint)
    say(part.passed)
    return part


def _join(plan: ReplayPlan, partition: int, part: Part, say: Callable[[int], None]) -> Iterator[None]:
    """Join and learn raw events; yield before each step, while the part is whole."""
    source = open_source(plan.address, plan.settings)
    bounds = {topic: plan.ranges[topic, partition] for topic in EVENTS}
    starts = {topic: start for topic, (start, _) in bounds.items()}
    stops = {topic: stop for topic, (_, stop) in bounds.items()}

    def read(topic: str, start: int, stop: int) -> Iterator[LogBlock]:
        return source.read(topic, partition, start, stop)

    commit = part.commit or plan.eras.begin(partition, **starts)
    join = resumed_join(plan.settings, commit, read, known=plan.eras.rules, partition=partition)
    for checkpoint in checkpoints(join, read, stops, finish=plan.finish):
        yield
        for batch in checkpoint.samples:
            part.learn(batch, plan.buckets)
        for letter in checkpoint.dead_letters:
            part.refuse(f"{letter.topic} {letter.partition} at offset {letter.offset}: {letter.reason}")
        part.commit, part.ledger = checkpoint.commit, checkpoint.commit.ledger
        part.passed = join.impressions.offset + join.clicks.offset - sum(starts.values())
        say(part.passed)


def _read(plan: ReplayPlan, partition: int, part: Part, say: Callable[[int], None]) -> Iterator[None]:
    """Learn samples; yield before each step, while the part is whole."""
    start, stop = plan.ranges["samples", partition]
    source = open_source(plan.address, plan.settings)
    for block in source.read("samples", partition, part.next_offset or start, stop):
        yield
        for record in block.records():
            try:
                batch: SampleBatch = decode(record.value or b"", SampleBatch)
            except SchemaError as error:
                part.refuse(f"samples {partition} at offset {record.offset}: {error}")
            else:
                part.learn(batch, plan.buckets)
        part.next_offset = min(block.next_offset, stop)
        part.passed = part.next_offset - start
        say(part.passed)
