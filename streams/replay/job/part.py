"""One partition's share of a replay; stopped at any time, it goes on from its file."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from learner import Bandit
from schemas.codec import SchemaError, decode
from schemas.json_text import parse_json
from schemas.records import SampleBatch, StateArray
from streams.events import Acceptance
from streams.join import Commit, Ledger, SessionJoin, checkpoints, rebuild_join
from streams.learn import learn_lists
from streams.logs import Archive, ArchiveError, ArchiveSource, LogSource, Range, SourceAway, replace_file
from streams.logs.job import KafkaSource
from streams.settings import EVENTS, Bucket, Settings

SAVE_EVERY_S = 5.0


class ReplayError(ValueError):
    """A replay that cannot be done as asked."""


class Interrupted(Exception):
    """The replay was told to stop; what was done is in its file."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to replay and how; all of it decides the outcome, so a part goes on only with the same plan."""

    settings: Settings
    buckets: Mapping[str, Bucket]  # that learn, with the parameters to learn with
    topics: tuple[str, ...]  # impressions and clicks, or samples
    ranges: Mapping[tuple[str, int], tuple[int, int]]
    topic_ids: tuple[str, ...]
    archive: Path | None = None  # else Kafka
    finish: bool = True
    within: Range = field(default_factory=Range)  # as it was asked for; ``ranges`` is what that meant at the time

    def source(self) -> LogSource:
        """Return where the logs are."""
        return KafkaSource(self.settings) if self.archive is None else ArchiveSource(Archive.open(self.archive))

    @property
    def asked(self) -> str:
        """Name of what was asked for: the same while the logs grow."""
        settings = self.settings
        rules = [[b.name, b.dim, b.positions, b.context_scale, b.reward_scale] for b in settings.buckets.values()]
        learn = {name: [bucket.epoch, bucket.model().settings()] for name, bucket in self.buckets.items()}
        within = [sorted(self.ranges), list(self.within.start), list(self.within.stop)]
        times = [settings.wait_s, settings.lateness_s, settings.future_s, self.finish]
        return sha256(json.dumps([rules, learn, within, times, self.topics, self.topic_ids]).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Name of the plan: the same for the same outcome."""
        ranges = [[*place, *bounds] for place, bounds in sorted(self.ranges.items())]
        return sha256(json.dumps([self.asked, ranges]).encode()).hexdigest()

    def total(self) -> int:
        """Return how many offsets there are to pass."""
        return sum(stop - start for start, stop in self.ranges.values())


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
        """Learn a batch, unless its bucket is left out; lists that do not fit are refused, as the learner does live."""
        model = self.models.get(batch.bucket)
        if model is None:
            return
        dim = buckets[batch.bucket].dim
        if batch.dim != dim and model.dim:
            self.refuse(f"contexts have {batch.dim} features, bucket {batch.bucket!r} has {dim}")
            return
        refused = learn_lists(model, batch)
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
        content["commit"] = None if self.commit is None else self.commit.encode()
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
            part.commit = None if commit is None else Commit.decode(tuple(commit[0]), tuple(commit[1]))[0]
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


class PartReplay:
    """Replays one partition, telling how far it is, saving now and then."""

    def __init__(self, plan: ReplayPlan, partition: int, file: Path) -> None:
        self.plan, self.partition, self.file = plan, partition, file
        self.part = Part.load(file, plan)
        self._fingerprint = plan.fingerprint
        self._saved_at = time.monotonic()

    def run(self, say: Callable[[int], None], stopping: Callable[[], bool]) -> Part:
        """Go to the end; ``say`` gets the offsets passed, ``stopping`` tells when to save and raise Interrupted."""
        if not self.part.done:
            try:
                replay = self._events if len(self.plan.topics) > 1 else self._samples
                replay(say, stopping)
            except (Interrupted, ArchiveError, SourceAway):  # all come between two steps, so the part is whole
                self.part.save(self.file, self._fingerprint)
                raise
            self.part.done = True
            self.part.save(self.file, self._fingerprint)
        say(self.part.passed)
        return self.part

    def _between(self, stopping: Callable[[], bool]) -> None:
        if stopping():
            raise Interrupted
        if time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self.part.save(self.file, self._fingerprint)
            self._saved_at = time.monotonic()

    def _events(self, say: Callable[[int], None], stopping: Callable[[], bool]) -> None:
        plan, part, settings = self.plan, self.part, self.plan.settings
        source = plan.source()
        bounds = {topic: plan.ranges[topic, self.partition] for topic in EVENTS}
        accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))
        begin = Commit.beginning(accept.hash, impressions=bounds["impressions"][0], clicks=bounds["clicks"][0])
        commit = part.commit or begin
        join = SessionJoin(
            accept,
            wait_ms=int(settings.wait_s * 1000),
            lateness_ms=int(settings.lateness_s * 1000),
            resume=commit,
            partition=self.partition,
        )

        def read(topic: str, start: int, stop: int) -> Any:
            return source.read(topic, self.partition, start, stop)

        rebuild_join(join, commit, read)
        stops = {topic: stop for topic, (_, stop) in bounds.items()}
        begun = sum(start for start, _ in bounds.values())
        for checkpoint in checkpoints(join, read, stops, finish=plan.finish):
            self._between(stopping)
            for batch in checkpoint.samples:
                part.learn(batch, plan.buckets)
            for letter in checkpoint.dead_letters:
                part.refuse(f"{letter.topic} {letter.partition} at offset {letter.offset}: {letter.reason}")
            part.commit, part.ledger = checkpoint.commit, checkpoint.commit.ledger
            part.passed = join.impressions.offset + join.clicks.offset - begun
            say(part.passed)

    def _samples(self, say: Callable[[int], None], stopping: Callable[[], bool]) -> None:
        plan, part = self.plan, self.part
        start, stop = plan.ranges["samples", self.partition]
        for block in plan.source().read("samples", self.partition, part.next_offset or start, stop):
            self._between(stopping)
            for record in block.records():
                try:
                    batch: SampleBatch = decode(record.value or b"", SampleBatch)
                except SchemaError as error:
                    part.refuse(f"samples {self.partition} at offset {record.offset}: {error}")
                else:
                    part.learn(batch, plan.buckets)
            part.next_offset = min(block.next_offset, stop)
            part.passed = part.next_offset - start
            say(part.passed)
