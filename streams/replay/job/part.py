"""One partition's share of a replay; stopped at any time, it goes on from its file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch
from streams.join import checkpoints, resumed_join
from streams.logs import ArchiveError, SourceAway
from streams.logs.job import open_source
from streams.replay.part import Part
from streams.replay.plan import ReplayPlan
from streams.settings import EVENTS

SAVE_EVERY_S = 5.0


class Interrupted(Exception):
    """The replay was told to stop; what was done is in its file."""


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
        source = open_source(plan.address, settings)
        bounds = {topic: plan.ranges[topic, self.partition] for topic in EVENTS}
        starts = {topic: start for topic, (start, _) in bounds.items()}
        commit = part.commit or plan.eras.begin(self.partition, **starts)

        def read(topic: str, start: int, stop: int) -> Any:
            return source.read(topic, self.partition, start, stop)

        join = resumed_join(settings, commit, read, known=plan.eras.rules, partition=self.partition)
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
        source = open_source(plan.address, plan.settings)
        for block in source.read("samples", self.partition, part.next_offset or start, stop):
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
