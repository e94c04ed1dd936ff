"""How fast logged events and samples are learned again from an archive, on one core, and in how much memory.

Prints `name value unit` per line. The log has lists of 12 items with 10 features, 0.7 clicks a list and 25 lists a
second, so 30,000 lists are open at any time. Each replay runs in a process of its own; the peer is the bare learner on
the same samples, already in memory.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np

from schemas.codec import decode, encode
from schemas.records import Click, Impression, SampleBatch
from streams.events import EventReader
from streams.learn import samples_of
from streams.logs import Archive, LogBlock, LogRecord, LogWriter
from streams.logs.job import open_source
from streams.replay import plan_of
from streams.replay.job import replay
from streams.replay.plan import ReplayPlan
from streams.settings import Bucket, Settings

K, DIM, GAP_MS, NOW = 12, 10, 40, 1_731_700_000_000
UBM = Bucket("ubm", algorithm="ubm-linucb", dim=DIM, positions=K, examination=np.tril(np.full((K, K), 0.7)))
SETTINGS = Settings(buckets={"ubm": UBM})


def write_events(archive: Archive, lists: int) -> None:
    """Write the log in pieces, so that it may be longer than the memory."""
    archive.add_topic("impressions", partitions=1)
    archive.add_topic("clicks", partitions=1)
    shown, clicked = (LogWriter(archive.log(topic, 0)) for topic in ("impressions", "clicks"))
    random = np.random.default_rng(1)
    waiting: list[tuple[int, int, int]] = []
    for start in range(0, lists, 3_000):
        numbers = range(start, min(start + 3_000, lists))
        contexts = (random.normal(size=(len(numbers), K, DIM)) * 0.2).clip(-1, 1).astype("<f4")
        items = random.integers(0, 1 << 20, (len(numbers), K))
        records = []
        for n, x, i in zip(numbers, contexts, items, strict=True):
            at = NOW + GAP_MS * n
            one = Impression(*names(n), "ubm", f"u{n % 1000:06d}", at, i.tobytes(), x.tobytes(), K, 1, n // 1000)
            records.append(LogRecord(n, at, names(n)[1].encode(), encode(one)))
            positions = (np.flatnonzero(random.random(K) < 0.06) + 1).tolist()
            waiting += [(at + int(random.integers(500, 60_000)), n, position) for position in positions]
        shown.append(LogBlock.of(records))
        waiting.sort()
        cut = sum(at <= records[-1].timestamp for at, _, _ in waiting) if numbers[-1] + 1 < lists else len(waiting)
        due, waiting = waiting[:cut], waiting[cut:]
        if due:
            first = clicked.next_offset
            clicked.append(LogBlock.of([click(first + k, *event) for k, event in enumerate(due)]))
    shown.close()
    clicked.close()


def names(n: int) -> tuple[str, str]:
    return f"6f1c2e8e-8a5d-4f0e-9d0b-{n:012x}", f"session-{n // 3:08d}"


def click(offset: int, at: int, n: int, position: int) -> LogRecord:
    return LogRecord(offset, at, names(n)[1].encode(), encode(Click(*names(n), position, at)))


def write_samples(archive: Archive) -> None:
    """Write what the join makes of the events."""
    from streams.events import Acceptance
    from streams.join import SessionJoin, checkpoints

    archive.add_topic("samples", partitions=1)
    writer = LogWriter(archive.log("samples", 0))
    join = SessionJoin(
        Acceptance(SETTINGS.buckets, future_ms=300_000), wait_ms=600_000, lateness_ms=600_000, reader=EventReader()
    )
    stops = {topic: archive.log(topic, 0).end for topic in ("impressions", "clicks")}
    for checkpoint in checkpoints(join, lambda topic, *bounds: archive.log(topic, 0).read(*bounds), stops, finish=True):
        if checkpoint.samples:
            values = [encode(batch) for batch in checkpoint.samples]
            first = writer.next_offset
            writer.append(LogBlock.of([LogRecord(first + n, 0, b"ubm", value) for n, value in enumerate(values)]))
    writer.close()


def planned(folder: str, kind: str) -> ReplayPlan:
    return plan_of(open_source(folder, SETTINGS), SETTINGS, samples=kind == "samples")[0]


def measure(folder: str, kind: str) -> None:
    """Replay once, and print the figures of this process."""
    plan = planned(folder, kind)
    start, work = perf_counter(), process_time()
    done = replay(plan)
    took, work = perf_counter() - start, process_time() - work
    name = f"replay-{kind}-{Archive(folder).log('impressions', 0).end}"
    print(f"{name} {done.lists / took:.0f} lists/s")
    print(f"{name}-rows {done.rows / took:.0f} rows/s")
    print(f"{name}-busy {done.lists / work:.0f} lists/s")  # without the time that others had the core
    print(f"{name}-rows-busy {done.rows / work:.0f} rows/s")
    [peak] = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
    print(f"{name}-memory {int(peak) / 1024:.0f} MB", flush=True)


def bare(folder: str) -> None:
    """Learn the same samples without any log around them."""
    blocks = [block.records() for block in Archive(folder).log("samples", 0).read()]
    ready = [samples_of(decode(record.value or b"", SampleBatch)) for block in blocks for record in block]
    model = UBM.model()
    start = perf_counter()
    for samples in ready:
        model.learn(samples)
    print(f"learn-samples-in-memory {sum(samples.rows for samples in ready) / (perf_counter() - start):.0f} rows/s")


def main(quick: bool) -> None:
    one_core = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for lists in (20_000,) if quick else (100_000, 400_000):
        with TemporaryDirectory() as folder:
            write_events(Archive(folder), lists)
            write_samples(Archive(folder))
            for kind in ("events", "samples"):
                command = [sys.executable, str(Path(__file__)), "--measure", folder, kind]
                subprocess.run(command, check=True, env=one_core)
            if lists <= 100_000:
                bare(folder)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(*sys.argv[-2:])
    else:
        main(quick="--quick" in sys.argv)
