"""The embedded runner's topics as files, and the one file that says how far everything got."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from schemas.json_text import parse_json
from schemas.records import Rules
from streams.join import BadCommit, Commit
from streams.logs import Archive, ArchiveError, LogBlock, LogRecord, LogWriter, Position, replace_file
from streams.settings import EVENTS

OUTPUTS = ("samples", "dead-letters", "late-clicks")
STANDING = "standing.json"
Place = tuple[str, int]  # topic, partition


class EmbeddedLogs:
    """The topics of the embedded runner, in a directory.

    ``commit`` makes all outputs since the last commit count, in one rename. What was written after it is dropped when
    the directory is opened again; appended events stay.

    Parameters
    ----------
    partitions
        Of every topic; a directory that has some keeps its number.
    sync
        Whether a commit waits for the disk. Without it a killed process loses nothing, but a power cut may.
    """

    def __init__(self, path: Path | str, *, partitions: int | None, codec: str | None, sync: bool) -> None:
        self.archive, self._sync = Archive(path), sync
        self._standing = self.archive.path / STANDING
        there = self.archive.info("impressions").partitions if "impressions" in self.archive.topics() else None
        self.partitions = there or partitions or 1
        if partitions not in (None, self.partitions):
            raise ArchiveError(f"{path} has {self.partitions} partitions, not {partitions}; take another directory")
        self.now_ms = 0
        self.commits: list[Commit] = []
        self.rules: list[Rules] = []  # of every era, as they began
        positions = self._load()
        self._writers: dict[Place, LogWriter] = {}
        for topic in (*EVENTS, *OUTPUTS):
            self.archive.add_topic(topic, partitions=self.partitions)
            for place in [(topic, number) for number in range(self.partitions)]:
                self._writers[place] = LogWriter(self.archive.log(*place), at=positions.get(place), codec=codec)
                if not positions and topic in OUTPUTS and self._writers[place].next_offset:
                    raise ArchiveError(f"{path} holds {topic} that no embedded runner wrote; take another directory")

    def _load(self) -> dict[Place, Position]:
        found = _standing(self.archive)
        if found is None:
            return {}
        self.commits, self.rules = committed(self.archive), logged_rules(self.archive)
        try:
            self.now_ms = int(found["now_ms"])
            return {(topic, number): Position(*place) for topic, number, place in found["outputs"]}
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{self._standing} cannot be read: {error!r}") from error

    def topic_id(self, topic: str) -> str:
        """Return the id that a topic got when its directory was made."""
        return self.archive.info(topic).topic_id

    def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record."""
        return self._writers[topic, partition].next_offset

    def append(
        self, topic: str, partition: int, payloads: Sequence[tuple[bytes | None, bytes | None]], at_ms: int
    ) -> list[LogRecord]:
        """Write keys and values as records stamped ``at_ms``, and return them."""
        start = self.end(topic, partition)
        records = [LogRecord(start + index, at_ms, key, value) for index, (key, value) in enumerate(payloads)]
        if records:
            self._writers[topic, partition].append(LogBlock.of(records))
        return records

    def commit(self, commits: Sequence[Commit], now_ms: int, new_rules: Sequence[Rules] = ()) -> None:
        """Make the outputs so far count, together with the join's standing in each partition, and rules of new eras."""
        if self._sync:
            for writer in self._writers.values():
                writer.sync()
        outputs: list[Any] = [(*place, self._writers[place].position) for place in self._writers if place[0] in OUTPUTS]
        rules = [*self.rules, *new_rules]
        standing = {
            "now_ms": now_ms,
            "commits": [commit.encode() for commit in commits],
            "outputs": outputs,
            "rules": [[one.hash, one.rules.decode(), *astuple(one)[2:]] for one in rules],
        }
        replace_file(self._standing, json.dumps(standing).encode(), sync=self._sync)
        self.commits, self.now_ms, self.rules = list(commits), now_ms, rules

    def close(self) -> None:
        """Let go of the files."""
        for writer in self._writers.values():
            writer.close()


def _standing(archive: Archive) -> dict[str, Any] | None:
    file = archive.path / STANDING
    try:
        found: dict[str, Any] = parse_json(file.read_bytes())
        return found
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ArchiveError(f"{file} cannot be read: {error}") from error


def logged_rules(archive: Archive) -> list[Rules]:
    """Return by which rules events were judged here; none if no embedded runner has noted it."""
    found = _standing(archive) or {}
    try:
        return [Rules(name, content.encode(), *rest) for name, content, *rest in found.get("rules", ())]
    except (ValueError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{archive.path / STANDING} cannot be read: {error!r}") from error


def committed(archive: Archive) -> list[Commit]:
    """Return the last commit of each partition, none if no embedded runner worked here."""
    found = _standing(archive)
    try:
        pairs = [] if found is None else found["commits"]
        return [Commit.decode((one[0], one[1]), (two[0], two[1]))[0] for one, two in pairs]
    except (BadCommit, ValueError, KeyError, TypeError, IndexError) as error:
        raise ArchiveError(f"{archive.path / STANDING} cannot be read: {error!r}") from error
