"""What an open list costs in memory (K=12, d=10), and how long many of them take to restore; no broker."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import psutil

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.broker import give_memory_back
from streams.events import Acceptance, EventReader
from streams.join import Commit, SessionJoin
from streams.logs import LogRecord
from streams.settings import Bucket

POSITIONS, DIM, CLICKS = 12, 10, 0.4
BATCH = 2_000
T0 = 1_700_000_000_000
ACCEPT = Acceptance({"a": Bucket("a", dim=DIM, positions=POSITIONS)}, future_ms=300_000)


def batches(lists: int) -> Iterator[tuple[list[LogRecord], list[LogRecord]]]:
    """Yield impressions and their clicks, 1,000 lists a second, all of them within one horizon."""
    rng, clicked = np.random.default_rng(1), 0
    contexts = rng.uniform(-0.3, 0.3, (100, POSITIONS * DIM)).astype("<f4")
    for start in range(0, lists, BATCH):
        impressions, clicks = [], []
        for number in range(start, min(start + BATCH, lists)):
            at, name, session = T0 + number, f"{number:08x}-0000-4000-8000-{number:012x}", f"session-{number:012d}"
            items = rng.integers(0, 1_000_000, POSITIONS).astype("<i8").tobytes()
            shown = Impression(name, session, "a", "user", at, items, contexts[number % 100].tobytes(), POSITIONS)
            impressions.append(LogRecord(number, at, session.encode(), encode(shown)))
            for _ in range(rng.poisson(CLICKS)):
                tap = Click(name, session, int(rng.integers(1, POSITIONS + 1)), at)
                clicks.append(LogRecord(clicked, at, session.encode(), encode(tap)))
                clicked += 1
        yield impressions, clicks


def fill(join: SessionJoin, lists: int) -> float:
    """Feed ``lists`` lists; return the seconds of CPU that the join took."""
    spent = 0.0
    for impressions, clicks in batches(lists):
        started = time.process_time()
        join.add_impressions(impressions)
        join.add_clicks(clicks)
        spent += time.process_time() - started
    return spent


def new_join(resume: Commit | None = None) -> SessionJoin:
    """Return a join with the default times."""
    return SessionJoin(ACCEPT, wait_ms=600_000, lateness_ms=600_000, resume=resume, reader=EventReader())


def run(lists: int) -> None:
    """Print bytes per open list and the CPU of a restore."""
    fill(new_join(), 10_000)  # what the libraries take once
    give_memory_back()  # as a join does every half minute
    before = psutil.Process().memory_info().rss
    join = new_join()
    fill(join, lists)
    give_memory_back()
    each = (psutil.Process().memory_info().rss - before) / lists
    commit = join.checkpoint(T0).commit
    del join
    spent = fill(new_join(commit), lists)
    print(f"join_open_list {each:.0f} B")
    print(f"join_restore_{lists} {spent:.1f} s")
    print(f"join_restore_rate {lists / spent:.0f} lists/s")


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 600_000)
