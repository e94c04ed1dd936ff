"""Cost of comparing a million lists out of their samples: CPU seconds and peak memory of a process of its own.

python tests/bench/compare.py [lists]
"""

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from schemas.codec import encode
from schemas.records import SampleBatch
from streams.compare import CompareChoice, compare
from streams.compare.job import SampleFollower
from streams.events import EventReader
from streams.logs import Archive, ArchiveSource, LogBlock, LogRecord, LogWriter

POSITIONS, DIM, A_BATCH, START_MS = 10, 10, 300, 1_700_000_000_000


def batches(lists):
    """Yield batches of two buckets over a day, a fifth of the lists by users who come back."""
    rng = np.random.default_rng(1)
    for number in range(0, lists, A_BATCH):
        rows = A_BATCH * POSITIONS
        clicks = rng.random((A_BATCH, POSITIONS)) < 0.08
        last = np.maximum.accumulate(np.where(clicks, np.arange(1, POSITIONS + 1), 0), axis=1)
        bucket = number // A_BATCH % 2
        yield SampleBatch(
            bucket=("old", "new")[bucket],
            dim=DIM,
            items=rng.integers(0, 2000, rows).astype("<i8").tobytes(),
            positions=np.tile(np.arange(1, POSITIONS + 1, dtype="u1"), A_BATCH).tobytes(),
            last_clicks=np.hstack((np.zeros((A_BATCH, 1), "u1"), last[:, :-1].astype("u1"))).tobytes(),
            rewards=clicks.astype("<f8").tobytes(),
            contexts=rng.random((rows, DIM)).astype("<f4").tobytes(),
            impression_ids=[f"{number + k:032x}" for k in range(A_BATCH)],
            sizes=np.full(A_BATCH, POSITIONS, "u1").tobytes(),
            signs=np.ones(A_BATCH, "i1").tobytes(),
            shown_at_ms=(START_MS + (number + np.arange(A_BATCH)) * 86_400_000 // lists).astype("<i8").tobytes(),
            source_partitions=np.zeros(A_BATCH, "<i4").tobytes(),
            source_offsets=np.arange(number, number + A_BATCH).astype("<i8").tobytes(),
            ranked_by_epochs=np.ones(A_BATCH, "<i4").tobytes(),
            ranked_by_offsets=np.zeros(A_BATCH, "<i8").tobytes(),
            split_version="s1",
            user_hashes=(1 + bucket + 2 * rng.integers(0, lists, A_BATCH)).astype("<u8").tobytes(),
        )


def write(folder, lists):
    archive = Archive(folder)
    archive.add_topic("samples", partitions=1)
    writer, held = LogWriter(archive.log("samples", 0)), []
    for offset, batch in enumerate(batches(lists)):
        held.append(LogRecord(offset, START_MS, batch.bucket.encode(), encode(batch)))
        if len(held) == 16:
            writer.append(LogBlock.of(held))
            held = []
    if held:
        writer.append(LogBlock.of(held))


def main() -> None:
    lists = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    if len(sys.argv) == 3:
        begun = time.process_time()
        follower = SampleFollower(ArchiveSource(Archive(sys.argv[2])), EventReader())
        follower.read()
        read = time.process_time()
        found = compare(follower.sums, follower.losses, CompareChoice(shares={"old": 1, "new": 1}))
        print(f"compare_lists {sum(one.lists for one in found.buckets)} lists")
        print(f"compare_read {read - begun:.1f} cpu-s")
        print(f"compare_judge {time.process_time() - read:.1f} cpu-s")
        print(f"compare_all {time.process_time():.1f} cpu-s")
        print(f"compare_memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        return
    with TemporaryDirectory() as folder:
        write(Path(folder), lists)
        subprocess.run([sys.executable, __file__, str(lists), folder], check=True)


if __name__ == "__main__":
    main()
