"""The learn worker that catches up with samples on a real broker, and what of its work is not learning.

K = 12, d = 10, records of 500 KB as the join writes them under load. The rest of the worker's CPU is Faust, with
aiokafka and asyncio below it, and transactions. `python tests/bench/learn.py [LISTS]`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from jobs import Jobs, wait_until  # noqa: E402
from sample_batches import pack  # noqa: E402

from learner import Samples  # noqa: E402
from schemas.codec import encode  # noqa: E402
from streams.broker import create_topics, transactional  # noqa: E402
from streams.learn import PartitionLearner, SamplesPartition  # noqa: E402
from streams.local.kafka import LocalKafka  # noqa: E402
from streams.logs import LogRecord  # noqa: E402
from streams.parameters.job import KafkaParameters  # noqa: E402
from streams.settings import Bucket, Settings, Topics  # noqa: E402

K, DIM, PORT = 12, 10, 6376
LISTS_A_RECORD, RECORDS_A_TRANSACTION, RECORDS_A_ROUND = 640, 8, 64
BUCKETS = {"main": Bucket("main", "c2ucb", DIM, K)}


def records(lists: int) -> list[bytes]:
    """Return encoded batches of so many lists."""
    random = np.random.default_rng(1)
    made = []
    for start in range(0, lists, LISTS_A_RECORD):
        many = min(LISTS_A_RECORD, lists - start)
        contexts = random.uniform(-1, 1, (many, K, DIM)).astype(np.float32)
        items = random.integers(0, 10**6, (many, K))
        batch = pack("main", Samples.from_clicks(contexts, random.random((many, K)) < 0.4 / K, items))
        ids = [f"list-{start + number:012}" for number in range(many)]
        made.append(encode(replace(batch, impression_ids=ids)))
    return made


def learning_s(values: list[bytes]) -> float:
    """Return the CPU seconds of the same rounds without a broker."""
    learner = PartitionLearner(BUCKETS, SamplesPartition("samples", "id"))
    rows = [LogRecord(offset, 0, b"main", value) for offset, value in enumerate(values)]
    began = time.process_time()
    for start in range(0, len(rows), RECORDS_A_ROUND):
        learner.apply(rows[start : start + RECORDS_A_ROUND])
        learner.publish(now_ms=0)
    return time.process_time() - began


def write(settings: Settings, values: list[bytes]) -> None:
    """Write the samples in transactions, as a join does."""
    producer = transactional(settings, "bench")
    producer.init_transactions()
    for start in range(0, len(values), RECORDS_A_TRANSACTION):
        producer.begin_transaction()
        for value in values[start : start + RECORDS_A_TRANSACTION]:
            producer.send(Topics.of(settings).samples, value, b"main")
        producer.commit_transaction()
    producer.close()


def worker_s(settings: Settings, folder: Path, lists: int) -> float:
    """Return the CPU seconds that a worker takes from when it is ready until all is learned."""
    jobs, parameters = Jobs(settings, folder), KafkaParameters(settings)

    def learned() -> int:
        parameters.catch_up()
        return sum(snapshot.rounds for snapshot in parameters.snapshots.values())

    def cpu_s() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    try:
        process = psutil.Process(jobs.start("learn").pid)
        wait_until(ready, timeout_s=60, jobs=jobs, every_s=0.01)
        began = cpu_s()
        wait_until(lambda: learned() >= lists, timeout_s=300, jobs=jobs, every_s=0.02)
        return cpu_s() - began
    finally:
        parameters.close()
        jobs.close()


def ready() -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main(lists: int) -> None:
    """Start a broker, and print what a worker takes beside what learning takes."""
    values = records(lists)
    alone = min(learning_s(values) for _ in range(3)) * 1e5 / lists
    with tempfile.TemporaryDirectory() as place:
        broker = LocalKafka(Path(place) / "kafka", heap_mb=1024)
        broker.start()
        try:
            settings = Settings(kafka=broker.bootstrap, buckets=BUCKETS, partitions=4, web_port=PORT)
            create_topics(settings)
            write(settings, values)
            whole = worker_s(settings, Path(place), lists) * 1e5 / lists
        finally:
            broker.stop()
    print(f"learn_worker {whole:.2f} CPU s/100000")
    print(f"learning_alone {alone:.3f} CPU s/100000")
    print(f"share_of_faust_and_transport {1 - alone / whole:.2f} ratio")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["300000"])[0]))
