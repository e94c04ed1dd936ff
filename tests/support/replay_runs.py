"""A live run of the embedded runner in a directory, with all that may go wrong with events, and ways to break it."""

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from schemas.records import Click, Impression, Snapshot
from streams.embedded.job import Embedded
from streams.events.job.produce import simulated_events
from streams.logs import Archive, LogBlock, LogRecord, LogWriter
from streams.logs.job import open_source
from streams.parameters import DirectoryParameters
from streams.replay import plan_of
from streams.replay.job import replay
from streams.settings import Bucket, Settings

K, DIM, START = 5, 4, 1_700_000_000_000
TABLE = np.tril(np.full((K, K), 0.6))
SETTINGS = Settings(
    wait_s=60,
    lateness_s=60,
    future_s=10,
    buckets={
        "ubm": Bucket("ubm", algorithm="ubm-linucb", dim=DIM, positions=K, examination=TABLE),
        "cm": Bucket("cm", algorithm="cm-linucb", dim=DIM, positions=K),
        "pbm": Bucket("pbm", algorithm="pbm-ucb", dim=DIM, positions=K, examination=TABLE[:, 0]),
    },
)
LISTS = 900


def play(path: Path, partitions: int, settings: Settings = SETTINGS) -> list[Snapshot]:
    """Run in steps of 5 s, late, repeated, early and misplaced events among them; return every snapshot."""
    ticks, choose = count(START, 50), random.Random(1)
    events = []
    for event in simulated_events(SETTINGS, LISTS, seed=1, clock=lambda: next(ticks) / 1000):
        if isinstance(event, Impression):
            events += [(event.shown_at_ms + 100, event)] * choose.choice([1] * 20 + [2])
        else:
            delay = choose.choice([-2_000, 0, 5_000, 70_000, 300_000])
            events += [(event.clicked_at_ms + delay, event)] * choose.choice([1, 1, 2])
    events += [(START + 9_000, Click("no such list", "s", 1, START)), (START, replace(events[0][1], bucket="nobody"))]
    steps: dict[int, list] = {}
    for at, event in sorted(events, key=lambda pair: pair[0]):
        steps.setdefault(-(-at // 5_000) * 5_000, []).append(event)
    snapshots = []
    with Embedded(path, settings, partitions=partitions) as loop:
        for at_ms, group in sorted(steps.items()):
            loop.append(group, at_ms=at_ms)
            snapshots += loop.step(at_ms)
        snapshots += loop.step(at_ms + 1_000_000)
        assert all(ledger.balanced and ledger.too_late == 0 for ledger in loop.ledgers.values())
    return snapshots


def live(folder: Path) -> dict[str, str]:
    """The hash of each bucket's newest snapshot."""
    return {name: DirectoryParameters(folder / "snapshots").newest(name).sha256 for name in SETTINGS.buckets}


def rewrite(
    folder: Path,
    topic: str,
    change: Callable[[list[LogRecord]], list[LogRecord]],
    *,
    size: int = 400,
    partition: int = 0,
) -> None:
    """Write a topic's partition again, its records changed by ``change``, in blocks of ``size``."""
    log = Archive(folder).log(topic, partition)
    records = change([record for block in log.read() for record in block.records()])
    for file in log.segments():
        file.unlink()
    writer = LogWriter(log, start=records[0].offset)
    for start in range(0, len(records), size):
        writer.append(LogBlock.of(records[start : start + size]))
    writer.close()


def hashes(folder: Path, settings: Settings = SETTINGS, *, out=None, readers=1, **options) -> dict[str, str]:
    plan, _ = plan_of(open_source(str(folder), settings), settings, **options)
    return {name: model.sha256() for name, model in replay(plan, out=out, readers=readers).models.items()}
