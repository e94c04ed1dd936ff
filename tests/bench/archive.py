"""What an impression costs to archive and to read again, beside a plain Avro file with one record for each.

Prints `name value unit` per line. Ours keeps key, offset and time stamp and checks every block; the plain file keeps
only the impression's own fields.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import fastavro
import numpy as np

from schemas.codec import encode
from schemas.known import SCHEMAS
from schemas.records import Impression
from streams.logs import Archive, LogBlock, LogRecord, LogWriter
from streams.logs.segment import CODECS, default_codec

K, DIM, BLOCK = 12, 10, 3_000
NOW = 1_731_700_000_000


def impressions(count: int) -> Iterator[Impression]:
    random = np.random.default_rng(1)
    contexts = (random.normal(size=(count, K, DIM)) * 0.2).clip(-1, 1).astype("<f4")
    items = random.integers(0, 1 << 40, (count, K))
    for n in range(count):
        ids = (f"6f1c2e8e-8a5d-4f0e-9d0b-{n:012x}", f"session-{n // 3:08d}", "ubm-linucb", f"user-{n % 1000:06d}")
        yield Impression(*ids, NOW + 20 * n, items[n].tobytes(), contexts[n].tobytes(), K, 1, n // 1000)


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def main(quick: bool) -> None:
    count = 20_000 if quick else 100_000
    shown = list(impressions(count))
    records = [LogRecord(n, NOW + 20 * n, one.session_id.encode(), encode(one)) for n, one in enumerate(shown)]
    payload = sum(len(record.value or b"") for record in records)
    print(f"payload {payload / count:.0f} bytes/impression")
    for codec in [name for name in CODECS if name != "zstandard" or default_codec() == name]:
        with TemporaryDirectory() as folder:
            ours(Path(folder), codec, records)
            plain(Path(folder) / "plain.avro", codec, shown)


def ours(folder: Path, codec: str, records: list[LogRecord]) -> None:
    archive, count = Archive(folder), len(records)
    archive.add_topic("impressions", partitions=1)
    writer = LogWriter(archive.log("impressions", 0), codec=codec)

    def write() -> None:
        for start in range(0, count, BLOCK):
            writer.append(LogBlock.of(records[start : start + BLOCK]))
        writer.close()

    log = archive.log("impressions", 0)
    print(f"write-{codec} {count / seconds(write):.0f} impressions/s")
    print(f"read-{codec} {count / seconds(lambda: [block.records() for block in log.read()]):.0f} impressions/s")
    print(f"size-{codec} {log.size_bytes / count:.0f} bytes/impression")


def plain(path: Path, codec: str, shown: list[Impression]) -> None:
    rows = [{name: getattr(one, name) for name in one.__struct_fields__} for one in shown]

    def write() -> None:
        with path.open("wb") as file:
            fastavro.writer(file, SCHEMAS[Impression], rows, codec=codec, sync_interval=2 << 20)

    def read() -> None:
        with path.open("rb") as file:
            for _ in fastavro.reader(file):
                pass

    print(f"write-{codec}-plain-fastavro {len(rows) / seconds(write):.0f} impressions/s")
    print(f"read-{codec}-plain-fastavro {len(rows) / seconds(read):.0f} impressions/s")
    print(f"size-{codec}-plain-fastavro {path.stat().st_size / len(rows):.0f} bytes/impression")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
