"""The embedded runner's topics as files, and the one file that says how far everything got."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

from schemas.json_text import parse_json
from schemas.records import Rules
from streams.join import BadCommit, Commit
from streams.logs import Archive, ArchiveError, LogBlock, LogRecord, LogWriter, Position, replace_file
from streams.settings import EVENTS

OUTPUTS = ("samples", "dead-letters", "late-clicks")
STANDING = "standing.json"
Place = tuple[str, int]  # topic, partition


class RunnerStanding(NamedTuple):
    """How far everything got."""

    now_ms: int
    commits: list[Commit]  # the join's last one, by partition
    outputs: dict[Place, Position]  # where they end
    rules: list[Rules]  # of every era, as they began


class EmbeddedLogs:
    """The topics of the embedded runner, in a directory.

    ``commit`` makes all outputs since the last commit count, in one rename. What was written after it is dropped when
    the directory is opened again; appended events stay. A directory that has topics keeps their number of partitions.
    With ``sync`` a commit waits for the disk; without it a killed process loses nothing, but a power cut may.
    """

    def __init__(self, path: Path | str, *, partitions: int | None, codec: str | None, sync: bool) -> None:
        self.archive, self._sync = Archive(path), sync
        self._standing = self.archive.path / STANDING
        there = self.archive.info("impressions").partitions if "impressions" in self.archive.topics() else None
        self.partitions = there or partitions or 1
        if partitions not in (None, self.partitions):
            raise ArchiveError(f"{path} has {self.partitions} partitions, not {partitions}; take another directory")
        standing = read_standing(self.archive) or RunnerStanding(0, [], {}, [])
        self.now_ms, self.commits, positions, self.rules = standing
        self._writers: dict[Place, LogWriter] = {}
        for topic in (*EVENTS, *OUTPUTS):
            self.archive.add_topic(topic, partitions=self.partitions)
            for log in [(topic, number) for number in range(self.partitions)]:
                self._writers[log] = LogWriter(self.archive.log(*log), at=positions.get(log), codec=codec)
                if not positions and topic in OUTPUTS and self._writers[log].next_offset:
                    raise ArchiveError(f"{path} holds {topic} that no embedded runner wrote; take another directory")

    def append(
        self, topic: str, partition: int, payloads: Sequence[tuple[bytes | None, bytes | None]], at_ms: int
    ) -> list[LogRecord]:
        """Write keys and values as records stamped ``at_ms``, and return them."""
        start = self._writers[topic, partition].next_offset
        records = [LogRecord(start + index, at_ms, key, value) for index, (key, value) in enumerate(payloads)]
        if records:
            self._writers[topic, partition].append(LogBlock.of(records))
        return records

    def commit(self, commits: Sequence[Commit], now_ms: int, new_rules: Sequence[Rules] = ()) -> None:
        """Make the outputs so far count, together with the join's standing in each partition, and rules of new eras."""
        if self._sync:
            for writer in self._writers.values():
                writer.sync()
        outputs: list[Any] = [(*log, self._writers[log].position) for log in self._writers if log[0] in OUTPUTS]
        rules = [*self.rules, *new_rules]
        standing = {
            "now_ms": now_ms,
            "commits": [commit.encode() for commit in commits],
            "outputs": outputs,
            "rules": [[entry.hash, entry.rules.decode(), *astuple(entry)[2:]] for entry in rules],
        }
        replace_file(self._standing, json.dumps(standing).encode(), sync=self._sync)
        self.commits, self.now_ms, self.rules = list(commits), now_ms, rules

    def close(self) -> None:
        """Let go of the files."""
        for writer in self._writers.values():
            writer.close()


def read_standing(archive: Archive) -> RunnerStanding | None:
    """Return what the last commit noted; None if no embedded runner worked here."""
    file = archive.path / STANDING
    try:
        noted: dict[str, Any] = parse_json(file.read_bytes())
        return RunnerStanding(
            int(noted["now_ms"]),
            [
                Commit.decode((impressions[0], impressions[1]), (clicks[0], clicks[1]))[0]
                for impressions, clicks in noted["commits"]
            ],
            {(topic, number): Position(*position) for topic, number, position in noted["outputs"]},
            [Rules(name, content.encode(), *rest) for name, content, *rest in noted.get("rules", ())],
        )
    except FileNotFoundError:
        return None
    except (BadCommit, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ArchiveError(f"{file} cannot be read: {error!r}") from error
