"""The ranking service: choosing 12 of 40,000 held items, lists and feedback over HTTP, and by hand with FastAPI.

Servers run on one core, the clients and Kafka on the other. On a busy machine a server has its core for a part of the
time only, which is printed, as is what it did in each second that it had. Prints `name value unit` per line.
``python tests/bench/serve.py [SECONDS]``: how long each of the rounds over HTTP lasts.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from jobs import Jobs  # noqa: E402
from ranking import write_npz  # noqa: E402

from learner import Samples  # noqa: E402
from schemas.codec import encode  # noqa: E402
from streams.broker import admin, create_topics  # noqa: E402
from streams.local import LocalKafka  # noqa: E402
from streams.local.server import free_port  # noqa: E402
from streams.parameters import DirectoryParameters, take_snapshot  # noqa: E402
from streams.rank import read_catalogue  # noqa: E402
from streams.rank.choice import choose  # noqa: E402
from streams.rank.requests import RankRequest  # noqa: E402
from streams.settings import Bucket, Settings  # noqa: E402

ITEMS, K, CONNECTIONS, ROUNDS = 40_000, 12, 8, 3
SERVER, OTHERS = {0}, {1}  # cores
EVENTS = 500  # in a body of feedback


class Server(NamedTuple):
    """A process that answers."""

    name: str
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Return what it has used of its processor."""
        used = psutil.Process(self.pid).cpu_times()
        return float(used.user + used.system)

    def ready_s(self) -> float:
        """Return how long its busiest thread has run or waited for the core, and for nothing else."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return max(sum(map(int, task.read_text().split()[:2])) for task in tasks) / 1e9


def learned(bucket: Bucket) -> object:
    """Return a model that has seen 5,000 lists."""
    random = np.random.default_rng(1)
    model = bucket.model()
    contexts = random.uniform(-0.5, 0.5, (5000, K, bucket.dim))
    model.learn(Samples.from_clicks(contexts, random.random((5000, K)) < 0.2 * (1 + contexts[..., 1])))
    return model


def in_process(folder: Path) -> None:
    """Choosing a list, times one product of the same size in the same run."""
    for dim in (10, 56):
        bucket = Bucket("main", dim=dim, positions=K, alpha=0.3)
        held = read_catalogue(write_npz(folder / f"{dim}.npz", items=ITEMS, columns=dim - 1))
        model, square = learned(bucket), np.random.default_rng(0).random((dim, dim))
        request = RankRequest("u")
        times: dict[str, list[float]] = {"product": [], "choose": []}
        for _ in range(500):
            began = time.perf_counter()
            held.held @ square
            middle = time.perf_counter()
            choose(request, bucket, model, held)
            times["product"].append(middle - began)
            times["choose"].append(time.perf_counter() - middle)
        for share in (50, 99):
            product, chosen = (np.percentile(times[name], share) * 1e3 for name in ("product", "choose"))
            print(f"choose_d{dim}_p{share} {chosen:.3f} ms")
            print(f"choose_d{dim}_p{share}_times_product {chosen / product:.2f} x")


async def ask(port: int, body: bytes, seconds: float, took: list[float], bad: list[bytes]) -> None:
    """Send one request after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        writer.write(body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        took.append(time.perf_counter() - began)
        if head[9:11] != b"20":
            bad.append(head)
    writer.close()


def load(port: int, path: str, found: object, seconds: float, connections: int = CONNECTIONS) -> list[float]:
    """Return how long each request took, of several connections at once."""
    data = json.dumps(found).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    took: list[float] = []
    bad: list[bytes] = []

    async def all_of_them() -> None:
        await asyncio.gather(
            *(ask(port, f"{head}\r\n\r\n".encode() + data, seconds, took, bad) for _ in range(connections))
        )

    asyncio.run(all_of_them())
    assert not bad, bad[0]
    return took


@contextmanager
def by_hand(folder: Path, kafka: str) -> Iterator[Server]:
    """The service with FastAPI and numpy."""
    port = free_port()
    environ = {**os.environ, "SHOP": str(folder / "10.npz"), "MODEL": str(folder / "model.npz"), "KAFKA": kafka}
    environ["PYTHONPATH"] = str(ROOT / "tests" / "support")
    command = [sys.executable, "-m", "uvicorn", "by_hand_service:app", "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(command, env={**environ, "OMP_NUM_THREADS": "1"})
    os.sched_setaffinity(process.pid, SERVER)
    try:
        yield Server("by_hand", port, process.pid)
    finally:
        process.terminate()
        process.wait()


def until_answering(port: int) -> None:
    """Wait for a service."""
    for _ in range(300):
        try:
            load(port, "/rank", {"user": "u", "session": "s"}, 0.01, 1)
            return
        except (OSError, asyncio.IncompleteReadError):
            time.sleep(0.1)
    raise TimeoutError(port)


def feedback() -> list[dict[str, object]]:
    """Return a body of lists and clicks, 0.4 a list."""
    random = np.random.default_rng(3)
    events: list[dict[str, object]] = []
    for number in range(EVENTS * 5 // 7):
        shown = {"impression_id": f"i{number}", "session_id": f"s{number}"}
        contexts = np.round(random.uniform(-1, 1, (K, 10)), 4).tolist()
        items = random.integers(0, ITEMS, K).tolist()
        events.append({"type": "impression", **shown, "bucket": "main", "user_id": "u", "items": items})
        events[-1]["contexts"] = contexts
        if number % 5 < 2:
            events.append({"type": "click", **shown, "position": 2})
    return events


def over_http(folder: Path, seconds: float) -> None:
    """Lists a second of both services in turn, then feedback."""
    bucket = Bucket("main", dim=10, positions=K, alpha=0.3)
    model = learned(bucket)
    broker = LocalKafka(folder / "kafka")
    broker.start()
    try:
        settings = Settings(kafka=broker.bootstrap, buckets={"main": bucket})
        create_topics(settings)
        with admin(settings) as client:
            client.create_topics({"by-hand": {"num_partitions": 4, "replication_factor": 1}})
        snapshot = take_snapshot(model, bucket, samples_offset=1, topic_id="t", partition=0, published_at_ms=0)
        DirectoryParameters(folder).put(snapshot, encode(snapshot))
        np.savez(folder / "model.npz", theta=model.theta, inverse=np.linalg.inv(model.gram), alpha=0.3)
        port = free_port()
        jobs = Jobs(settings, folder)
        options = ["--catalogue", str(folder / "10.npz"), "--source", str(folder), "--port", str(port)]
        ours = jobs.start("serve", *options, OMP_NUM_THREADS="1")
        os.sched_setaffinity(ours.pid, SERVER)
        for pid in (os.getpid(), broker.pid):
            os.sched_setaffinity(pid, OTHERS)
        served = Server("serve", port, ours.pid)
        with by_hand(folder, broker.bootstrap) as peer:
            compare(served, peer, seconds)
        events, before, ready_before = feedback(), served.cpu_s(), served.ready_s()
        took = load(port, "/feedback", events, seconds, 2)
        sent = len(took) * len(events)
        used = served.cpu_s() - before
        print(f"feedback {sent / seconds:.0f} events/s")
        print(f"feedback_had_its_core {used / seconds:.0%} of the time")
        print(f"feedback_ran_or_waited_for_its_core {(served.ready_s() - ready_before) / seconds:.0%} of the time")
        print(f"feedback_a_cpu_second {sent / used:.0f} events")
        jobs.close()
    finally:
        broker.stop()


def compare(ours: Server, peer: Server, seconds: float) -> None:
    """Print lists a second and latencies of both, measured in turn."""
    request = {"user": "u", "session": "s", "size": K}
    took: dict[str, list[float]] = {server.name: [] for server in (ours, peer)}
    used = dict.fromkeys(took, 0.0)
    for server in (ours, peer):
        until_answering(server.port)
        load(server.port, "/rank", request, 1.0)  # warm
    for _ in range(ROUNDS):
        for server in (ours, peer):
            before = server.cpu_s()
            took[server.name] += load(server.port, "/rank", request, seconds)
            used[server.name] += server.cpu_s() - before
    figures: dict[str, dict[str, float]] = {}
    for name, times in took.items():
        middle, late = np.percentile(times, [50, 99]) * 1e3
        found = {"requests": len(times) / (ROUNDS * seconds), "a_cpu_second": len(times) / used[name], "p99": late}
        print(f"{name} {found['requests']:.0f} requests/s")
        print(f"{name}_had_its_core {used[name] / (ROUNDS * seconds):.0%} of the time")
        print(f"{name}_a_cpu_second {found['a_cpu_second']:.0f} requests")
        print(f"{name}_p50 {middle:.2f} ms")
        print(f"{name}_p99 {late:.2f} ms")
        figures[name] = found
    for name, value in figures["serve"].items():
        print(f"serve_{name}_times_by_hand {value / figures['by_hand'][name]:.2f} x")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        in_process(Path(scratch))
        over_http(Path(scratch), float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
