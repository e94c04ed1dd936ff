"""Events that are none: every way to be refused, from empty to what a broker takes, compressed and not."""

import heapq
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from jobs import Jobs, wait_until
from joined import BUCKETS, Net, Reader, commits, events, lists_wanted
from kafka import KafkaProducer
from msgspec.structs import replace
from traffic import Event

from schemas.codec import decode, encode
from schemas.records import Click, DeadLetter, Impression, Progress
from streams.join.job.writer import MOST_BYTES
from streams.settings import Topics

K, DIM = 12, 10
RECORD_BYTES = 1_000_000  # about what a broker takes
COMPRESSED_BYTES = 4 << 20  # it looks at what is left of them
LARGE_EVERY = 500  # each so-manieth is as large as that
NEED_A_LIST = (  # called twice, before them
    "has other content than at offset",
    "position 13 is beyond the list of 12",
    "reward 1.5 is above 1",
)
MEMORY_MB = 400  # that a join of two partitions may ever have, whatever it is sent


def good(now_ms, size=K, dim=DIM, **changes):
    contexts = np.full((size, dim), 0.25, "<f4")
    plain = Impression("p", "s", "a", "u", now_ms, np.arange(size, dtype="<i8").tobytes(), contexts.tobytes(), size)
    return replace(plain, **changes)


def with_number(number):
    contexts = np.full((K, DIM), 0.25, "<f4")
    contexts[3, 7] = number
    return contexts.tobytes()


def bad_impressions(now_ms):
    """Return reason -> bytes."""
    sound = encode(good(now_ms))
    return {
        "no Avro header": b"\x93\x17 not avro at all",
        "unknown schema fingerprint": b"\xc3\x01" + bytes(8) + sound[10:],
        "not a Impression": sound[:-40],
        "expected Impression, got Progress": encode(Progress("t", 0, 1, 2, [], 1)),
        "context nan of position 4, feature 8": encode(good(now_ms, contexts=with_number(np.nan))),
        "context inf of position 4": encode(good(now_ms, contexts=with_number(np.inf))),
        "context -1.5 of position 4, feature 8 is not within ±1": encode(good(now_ms, contexts=with_number(-1.5))),
        "contexts have 9 numbers an item; bucket 'a' wants 10": encode(good(now_ms, dim=9)),
        "unknown bucket 'nobody'": encode(good(now_ms, bucket="nobody")),
        "a list of 13 items is longer than the 12": encode(good(now_ms, size=13)),
        "13 positions rendered of a list of 12": encode(good(now_ms, rendered=13)),
        "shown 60 s after its own record": encode(good(now_ms + 60_000)),
        "too late: its horizon had passed": encode(good(now_ms - 3_600_000)),
        "has other content than at offset": encode(good(now_ms, impression_id="twice", rendered=3)),
    }


def bad_clicks(now_ms):
    plain = Click("twice", "s", 1, now_ms)
    return {
        "no Avro header": b"",
        "position 0; positions start at 1": encode(replace(plain, position=0)),
        "position 13 is beyond the list of 12": encode(replace(plain, position=13)),
        "reward nan is not a finite number": encode(replace(plain, reward=float("nan"))),
        "reward -1 is not a finite number": encode(replace(plain, reward=-1.0)),
        "reward 1.5 is above 1": encode(replace(plain, reward=1.5)),
        "clicked 3600 s after its own record": encode(replace(plain, clicked_at_ms=now_ms + 3_600_000)),
    }


def sized(now_ms: int, size: int, dice: random.Random) -> tuple[bytes, bytes | None]:
    """Return key and value of about ``size`` bytes; what cannot be compressed has no more than a broker takes."""
    key, many = b"%d" % dice.randrange(1 << 40), "x" * size
    kinds = (
        lambda: (key, bytes(size)),
        lambda: (key, dice.randbytes(min(size, RECORD_BYTES))),
        lambda: (key, b"\xc3\x01" + dice.randbytes(min(size, RECORD_BYTES))),
        lambda: (key, encode(good(now_ms, bucket=many))),
        lambda: (key, encode(good(now_ms, impression_id=many, rendered=99))),
        lambda: (key, encode(Click(many, "s", 0, now_ms))),
        lambda: (key, encode(Click("i", many, 0, now_ms))),
        lambda: (many.encode(), encode(Click("i", "s", 0, now_ms))),
        lambda: (many.encode(), None),
    )
    return dice.choice(kinds)()


def poison(now_ms: int, dice: random.Random) -> Iterator[tuple[bytes, bytes | None, bool]]:
    """Yield key, value and whether to compress it, without end: every kind, small and as large as can be."""
    small = [*bad_impressions(now_ms).items(), *bad_clicks(now_ms).items(), ("a tombstone", None)]
    small = [value for reason, value in small if reason not in NEED_A_LIST]
    for number in count():
        compress, size = bool(number % 2), int(10 ** dice.uniform(0, 4.2))
        if number % LARGE_EVERY < 2:
            size = COMPRESSED_BYTES if compress else RECORD_BYTES
        elif number % 3 == 0:
            yield b"%d" % number, small[number // 3 % len(small)], compress
            continue
        yield *sized(now_ms, size, dice), compress


@dataclass
class Cost:
    """What a join has used for some events."""

    cpu_s: float
    peak_mb: float
    largest_bytes: int

    def __str__(self) -> str:
        return f"{self.cpu_s:.2f} s of CPU, at most {self.peak_mb:.0f} MB, {self.largest_bytes / 2**20:.1f} MB at once"


def join_all(settings_for, folder: Path, *, lists: int, bad: int) -> Cost:
    """Let a worker join good events with bad ones between them: exact, each bad one a letter with its origin."""
    settings = settings_for(buckets=BUCKETS, wait_s=10.0, lateness_s=10.0, future_s=30.0, partitions=2)
    topics, dice = Topics.of(settings), random.Random(lists)
    folder.mkdir()
    jobs, net, reader = Jobs(settings, folder), Net(settings), Reader(settings, topics.dead_letters)
    worker = jobs.start("join", "--from", "earliest")
    try:
        wait_until(lambda: "goes on from" in jobs.printed() and len(commits(settings)) == 2, timeout_s=60, jobs=jobs)
        before_s = cpu_s(worker.pid)
        impressions, clicks = events(lists, seed=lists)
        sent = write_mixed(settings, {topics.impressions: impressions, topics.clicks: clicks}, bad, dice)

        def done():
            ledgers = [commit.ledger for commit in commits(settings)]
            read = sum(ledger.impressions + ledger.clicks for ledger in ledgers)
            return read == len(impressions) + len(clicks) + bad and not any(one.open + one.waiting for one in ledgers)

        wait_until(done, timeout_s=240, jobs=jobs, every_s=0.5)
        port = int(jobs.printed().partition("metrics on http://127.0.0.1:")[2].split()[0])
        with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            found = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines() if line[0] != "#")
        cost = Cost(
            cpu_s(worker.pid) - before_s, peak_mb(worker.pid), int(float(found["glimpse_join_largest_commit_bytes"]))
        )
        assert net.now() == lists_wanted(impressions, clicks)
        letters = [decode(record.value, DeadLetter) for record in reader.read()]
        assert sorted((one.topic, one.partition, one.offset) for one in letters) == sorted(sent)
        assert all(commit.ledger.balanced for commit in commits(settings))
        assert cost.largest_bytes <= MOST_BYTES
        return cost
    finally:
        jobs.close()
        net.close()
        reader.close()


def write_mixed(settings, logs: dict[str, list[Event]], bad: int, dice: random.Random) -> list[tuple[str, int, int]]:
    """Write both logs with bad records evenly between the good ones; return where those are."""
    total = sum(map(len, logs.values()))
    options = {"acks": "all", "linger_ms": 20, "batch_size": 1 << 18, "max_request_size": 64 << 20}
    plain = KafkaProducer(**settings.kafka_options(), **options)
    packed = KafkaProducer(**settings.kafka_options(), **options, compression_type="gzip")
    written, futures = 0, []
    first_ms = min(event.timestamp_ms for log in logs.values() for event in log)  # they must not move clocks
    source = poison(first_ms, dice)
    try:
        for topic, event in together(logs):
            key = event.record.session_id.encode()
            plain.send(topic, encode(event.record), key=key, timestamp_ms=event.timestamp_ms)
            written += 1
            while len(futures) < bad * written // total:
                key, value, compress = next(source)
                producer = packed if compress else plain
                futures.append(producer.send(topic, value, key=key, timestamp_ms=first_ms))
        found = [future.get(60) for future in futures]
        plain.flush(60)
    finally:
        plain.close(10)
        packed.close(10)
    return [(one.topic, one.partition, one.offset) for one in found]


def together(logs: dict[str, list[Event]]) -> Iterator[tuple[str, Event]]:
    """Yield the events of several logs side by side: one that is silent for a minute is taken to have ended."""
    shares = [[(place / len(log), topic, place) for place in range(len(log))] for topic, log in logs.items()]
    for _, topic, place in heapq.merge(*shares):
        yield topic, logs[topic][place]


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """Return the most memory that a process ever had."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6
