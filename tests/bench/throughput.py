"""The stream job on a real broker: rate, CPU, memory and restart, beside loops without any guarantee in the same run.

K = 12, d = 10, four partitions, 0.4 clicks a list, wait and lateness 10 s, exactly once. The logs are written first,
then read as fast as they can be. Prints `name value unit` per line. `python tests/bench/throughput.py [LISTS]`.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from jobs import Jobs, wait_until  # noqa: E402
from joined import commits  # noqa: E402

from learner.browsing import previous_click  # noqa: E402
from schemas.codec import decode, encode  # noqa: E402
from schemas.records import Click, Impression, SampleBatch  # noqa: E402
from streams.broker import create_topics  # noqa: E402
from streams.learn import samples_of  # noqa: E402
from streams.local.kafka import LocalKafka  # noqa: E402
from streams.parameters.job import KafkaParameters  # noqa: E402
from streams.settings import Bucket, Settings, Topics  # noqa: E402

K, DIM, CLICKS, RATE = 12, 10, 0.4, 20_000
PARTITIONS, JOIN_PORT = 4, 6367
START_MS = (int(time.time()) - 7200) * 1000


def fill(settings: Settings, lists: range) -> None:
    """Write lists and their clicks at the event times of ``RATE`` lists a second, as two logs in order."""
    topics = Topics.of(settings)
    producer = KafkaProducer(**settings.kafka_client(), acks=1, linger_ms=50, batch_size=1 << 19, max_block_ms=600_000)
    random = np.random.default_rng(lists.start)
    contexts = [block.tobytes() for block in random.uniform(-1, 1, (500, K, DIM)).astype("<f4")]
    items = [block.tobytes() for block in random.integers(0, 10**6, (500, K))]
    taps = []
    for number in lists:
        at = START_MS + number * 1000 // RATE
        session = f"session-{number:09}"
        shown = Impression(
            f"list-{number:012}", session, "main", "user", at, items[number % 500], contexts[number * 7 % 500], K
        )
        producer.send(topics.impressions, encode(shown), key=session.encode(), timestamp_ms=at)
        for position in np.flatnonzero(random.random(K) < CLICKS / K) + 1:
            late = int(random.integers(500, 8000) if random.random() < 0.98 else random.integers(10_000, 18_000))
            taps.append(Click(shown.impression_id, session, int(position), at + late))
    for click in sorted(taps, key=lambda click: click.clicked_at_ms):
        key = click.session_id.encode()
        producer.send(topics.clicks, encode(click), key=key, timestamp_ms=click.clicked_at_ms)
    producer.flush()
    producer.close()


def processed(settings: Settings) -> int:
    """How many impressions all commits of the join have behind them."""
    return sum(commit.ledger.impressions for commit in commits(settings))


def seconds_of_cpu(process: psutil.Process) -> float:
    """User and system time of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def run_join(settings: Settings, folder: Path, lists: int, *, workers: int, learn: bool) -> tuple[float, float, float]:
    """Return lists a second between 10% and 90%, join CPU seconds and learn CPU seconds per 100,000 lists."""
    jobs = Jobs(settings, folder)
    try:
        joins = [jobs.start("join", "--from", "earliest") for _ in range(workers)]
        learners = [jobs.start("learn")] if learn else []
        marks = []
        for share in (0.1, 0.9, 1.0):
            wait_until(lambda share=share: processed(settings) >= share * lists, timeout_s=600, jobs=jobs, every_s=0.1)
            marks.append((time.monotonic(), processed(settings)))
        if learn:
            parameters = KafkaParameters(settings)
            wait_until(lambda: learned(parameters) >= lists, timeout_s=120, jobs=jobs)
            parameters.close()
        cpu = sum(seconds_of_cpu(psutil.Process(job.pid)) for job in joins)
        learn_cpu = sum(seconds_of_cpu(psutil.Process(job.pid)) for job in learners)
    finally:
        jobs.close()
    (t0, n0), (t1, n1), _ = marks
    return (n1 - n0) / (t1 - t0), cpu / lists * 100_000, learn_cpu / lists * 100_000


def learned(parameters: KafkaParameters) -> int:
    parameters.catch_up()
    return sum(snapshot.rounds for snapshot in parameters.snapshots.values())


def plain_loop(settings: Settings, lists: int) -> tuple[float, float]:
    """Return lists a second and CPU per 100,000 of a loop a good engineer writes in an hour, with no guarantee at all.

    Poll, decode with our codec, join in a dict, send sample batches, learn them; no transactions, lateness or restart.
    """
    topics = Topics.of(settings)
    consumer = KafkaConsumer(
        **settings.kafka_client(), group_id=None, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
    )
    places = [TopicPartition(topic, p) for topic in (topics.impressions, topics.clicks) for p in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    producer = KafkaProducer(**settings.kafka_client(), acks=1, linger_ms=20, batch_size=1 << 19)
    model = settings.buckets["main"].model()
    shown: dict[str, Impression] = {}
    clicked: dict[str, list[int]] = {}
    done, clock, marks = 0, 0, []
    started = time.process_time()
    while done < lists:
        for place, records in consumer.poll(timeout_ms=200, max_records=4000).items():
            if place.topic == topics.clicks:
                for record in records:
                    click = decode(record.value, Click)
                    clicked.setdefault(click.impression_id, []).append(click.position)
                continue
            for record in records:
                impression = decode(record.value, Impression)
                shown[impression.impression_id] = impression
            clock = max(clock, records[-1].timestamp)
            done += len(records)
            marks.append((time.monotonic(), done))
        closed = []
        for name, impression in shown.items():  # in the order of time
            if impression.shown_at_ms + settings.wait_s * 1000 > clock:
                break
            closed.append(name)
        if closed:
            batch = batch_of([shown.pop(name) for name in closed], clicked)
            producer.send(topics.samples, encode(batch), key=b"main")
            model.learn(samples_of(batch))
    producer.flush()
    cpu = time.process_time() - started
    consumer.close()
    producer.close()
    (t0, n0) = next(mark for mark in marks if mark[1] >= 0.1 * lists)
    (t1, n1) = next(mark for mark in marks if mark[1] >= 0.9 * lists)
    return (n1 - n0) / (t1 - t0), cpu / lists * 100_000


def batch_of(impressions: list[Impression], clicked: dict[str, list[int]]) -> SampleBatch:
    """Return closed lists in columns."""
    rewards = np.zeros((len(impressions), K))
    for row, impression in enumerate(impressions):
        for position in clicked.pop(impression.impression_id, ()):
            rewards[row, position - 1] = 1.0
    lists = len(impressions)
    return SampleBatch(
        bucket="main",
        dim=DIM,
        items=b"".join(impression.items for impression in impressions),
        positions=np.tile(np.arange(1, K + 1, dtype=np.uint8), lists).tobytes(),
        last_clicks=previous_click(rewards).astype(np.uint8).tobytes(),
        rewards=rewards.tobytes(),
        contexts=b"".join(impression.contexts for impression in impressions),
        impression_ids=[impression.impression_id for impression in impressions],
        sizes=np.full(lists, K, np.uint8).tobytes(),
        signs=np.ones(lists, np.int8).tobytes(),
        shown_at_ms=np.array([impression.shown_at_ms for impression in impressions], "<i8").tobytes(),
        source_partitions=np.zeros(lists, "<i4").tobytes(),
        source_offsets=np.zeros(lists, "<i8").tobytes(),
        ranked_by_epochs=np.zeros(lists, "<i4").tobytes(),
        ranked_by_offsets=np.zeros(lists, "<i8").tobytes(),
    )


def faust_tables(settings: Settings, folder: Path, lists: int) -> float:
    """Return lists a second of plain Faust agents that join in a table, as its documentation shows it."""
    import subprocess

    topics = Topics.of(settings)
    script = folder / "plain_faust.py"
    script.write_text(f"""
import time, faust
from pathlib import Path
from schemas.codec import decode
from schemas.records import Click, Impression
app = faust.App("plain-{settings.topic_prefix}", broker="kafka://{settings.kafka}", store="memory://",
                topic_partitions={PARTITIONS}, value_serializer="raw", key_serializer="raw",
                consumer_auto_offset_reset="earliest", web_enabled=False)
shown = app.Table("shown", default=bytes, partitions={PARTITIONS}, key_type=bytes, value_type=bytes)
count, first = 0, 0.0
@app.agent(app.topic("{topics.impressions}", value_type=bytes))
async def impressions(stream):
    global count, first
    async for value in stream:
        shown[decode(value, Impression).impression_id.encode()] = value
        count += 1
        if count == {lists // 10}:
            first = time.monotonic()
        if count == {lists * 9 // 10}:
            Path("rate").write_text(str({lists * 8 // 10} / (time.monotonic() - first)))
@app.agent(app.topic("{topics.clicks}", value_type=bytes))
async def clicks(stream):
    async for value in stream:
        shown.get(decode(value, Click).impression_id.encode())
""")
    command = [sys.executable, "-m", "faust", "-A", "plain_faust", "worker", "--without-web", "-l", "error"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        wait_until((folder / "rate").exists, timeout_s=180)
        return float((folder / "rate").read_text())
    finally:
        process.kill()
        process.wait()


def restart(settings: Settings, folder: Path, lists: int) -> tuple[float, float]:
    """Return the memory of an open list in bytes, and the seconds a killed join takes to be ready with all of them."""
    jobs = Jobs(settings, folder)
    try:
        first = jobs.start("join", "--from", "earliest")
        wait_until(lambda: ready(settings), timeout_s=60, jobs=jobs)
        empty = psutil.Process(first.pid).memory_info().rss
        wait_until(lambda: processed(settings) >= lists, timeout_s=600, jobs=jobs)
        full = psutil.Process(first.pid).memory_info().rss
        jobs.kill(first)
        started = time.monotonic()
        jobs.start("join")
        wait_until(lambda: ready(settings), timeout_s=120, jobs=jobs, every_s=0.05)
        return (full - empty) / lists, time.monotonic() - started
    finally:
        jobs.close()


def ready(settings: Settings) -> bool:
    """Whether the join says that it is assigned and restored."""
    try:
        with urlopen(f"http://127.0.0.1:{settings.join_web_port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main(lists: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        broker = LocalKafka(folder / "kafka", heap_mb=1024)
        broker.start()
        try:
            measure(broker.bootstrap, folder, lists)
        finally:
            broker.stop()


def measure(bootstrap: str, folder: Path, lists: int) -> None:
    def settings(prefix: str, **changes: float) -> Settings:
        made = Settings(
            kafka=bootstrap,
            buckets={"main": Bucket("main", "c2ucb", DIM, K)},
            wait_s=10,
            lateness_s=10,
            partitions=PARTITIONS,
            topic_prefix=prefix,
            timestamps="CreateTime",
            web_port=0,
            join_web_port=0,
        )
        return replace(made, **changes)

    def place(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name

    def say(name: str, value: float, unit: str) -> None:
        print(f"{name} {value:.3g} {unit}", flush=True)

    runs = {name: settings(f"{name}-") for name in ("one", "two", "loop")}
    runs["open"] = settings("open-", wait_s=86_000.0, join_web_port=JOIN_PORT)
    for each in (*runs.values(), settings("faust-")):
        create_topics(each)
    half = range(0, lists, max(lists // 2, 1))
    for each in runs.values():
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.starmap(fill, [(each, range(start, min(start + lists // 2, lists))) for start in half])
    rate, cpu, learn_cpu = run_join(runs["one"], place("one"), lists, workers=1, learn=True)
    loop_rate, loop_cpu = plain_loop(runs["loop"], lists)
    _, two_cpu, _ = run_join(runs["two"], place("two"), lists, workers=2, learn=False)
    say("join_and_learn", rate, "impressions/s")
    say("join_cpu", cpu, "s/100000")
    say("learn_cpu", learn_cpu, "s/100000")
    say("plain_loop", loop_rate, "impressions/s")
    say("plain_loop_cpu", loop_cpu, "s/100000")
    say("join_and_learn_share_of_plain_loop", rate / loop_rate, "ratio")
    say("two_joins_cpu_times_one", two_cpu / cpu, "ratio")
    fewer = min(lists, 20_000)
    fill(settings("faust-"), range(fewer))
    say("plain_faust_with_tables", faust_tables(settings("faust-"), place("faust"), fewer), "impressions/s")
    memory, seconds = restart(runs["open"], place("open"), lists)
    say("join_process_growth", memory, "B/open list")
    say("restart_with_open_lists", seconds, f"s/{lists}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600_000)
