"""A seed in, two logs of each of three partitions out: 20,000 lists with all that goes wrong, the same to the bit.

Only whole numbers are drawn, and floats are whole numbers over powers of two: no sum, sort or library of a machine can
make other bytes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.settings import Bucket

LISTS, SESSIONS, PARTITIONS = 20_000, 997, 3
WAIT_MS, LATENESS_MS, FUTURE_MS = 60_000, 60_000, 10_000
HORIZON_MS = WAIT_MS + LATENESS_MS
START_MS, EVERY_MS = 1_700_000_000_000, 100  # a list is shown about so often
DEEP, FALLING = np.tri(8) * np.arange(16, 0, -2)[:, None] / 32, np.arange(10, 0, -1) / 16
BUCKETS = {
    "browsing": Bucket("browsing", "ubm-linucb", dim=6, positions=8, examination=DEEP + np.eye(8) / 4, ridge=8.0),
    "everything": Bucket("everything", "c2ucb", dim=5, positions=12, context_scale=2.0, alpha=0.5),
    "first": Bucket("first", "cm-linucb", dim=4, positions=6, beta=0.5),
    "until-last": Bucket("until-last", "dcm-linucb", dim=7, positions=9, reward_scale=4.0),
    "items": Bucket("items", "pbm-ucb", dim=0, positions=10, examination=FALLING, reward_scale=2.0),
}
SNAPSHOTS = {  # what the log teaches each bucket, on whatever way
    "browsing": "dc6d872e59195fa470c567f9106596cb2664739a6ed43c5292beafc7383c7a22",
    "everything": "42dc6711efb658e835e3ed7a3c7a65a59fa8b4bcf3bb4a6e24b5cb79f620cecf",
    "first": "59aae6224ef4fcdba050976e5c78b6beb45831f104892ba66bc2d6fb80a9151d",
    "items": "573fd176ba771d2946767dc64097ea13448f674f81a383ae4a119335e16df148",
    "until-last": "1e92eb5d3141a3f8c21ac1d591aa472caf015f0c4f9df82360136250e981ddab",
}


class Record(NamedTuple):
    """One record, as a log keeps it and as the join and the learner take it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def timestamp_ms(self) -> int:
        return self.timestamp


class Arrival(NamedTuple):
    """A record on its way: when it arrives, how much later it is written, and what it says."""

    at_ms: int
    jitter_ms: int
    session: int
    value: bytes | None


Log = list[Record]


def logs(seed: int) -> list[tuple[Log, Log]]:
    """Return the impressions log and the clicks log of each partition."""
    rng = np.random.Generator(np.random.PCG64(seed))
    arrivals: list[tuple[list[Arrival], list[Arrival]]] = [([], []) for _ in range(PARTITIONS)]
    for number in range(LISTS):
        shown = draw_impression(rng, number)
        session = int(shown.session_id[1:])
        impressions, clicks = arrivals[session % PARTITIONS]
        for at_ms, value in impressions_of(rng, shown, number):
            impressions.append(Arrival(at_ms, int(rng.integers(500)), session, value))
        for at_ms, value in clicks_of(rng, shown, number):
            clicks.append(Arrival(at_ms, int(rng.integers(500)), session, value))
    return [(written(rng, impressions), written(rng, clicks)) for impressions, clicks in arrivals]


def draw_impression(rng: np.random.Generator, number: int) -> Impression:
    session = int(rng.integers(SESSIONS))
    bucket = list(BUCKETS.values())[session % 7 % 5]  # some have twice the traffic of others
    size = int(rng.integers(1, bucket.positions + 1))
    steps = int(bucket.context_scale * 2**12)
    return Impression(
        f"i{number}",
        f"s{session}",
        bucket.name,
        f"u{session % 313}",
        START_MS + number * EVERY_MS + int(rng.integers(2_000)),
        rng.integers(1_000, size=size).astype("<i8").tobytes(),
        (rng.integers(-steps, steps + 1, size=size * bucket.dim) / 2**12).astype("<f4").tobytes(),
        int(rng.integers(1, size + 1)),
        int(rng.integers(1, 3)),
        int(rng.integers(1_000)),
    )


def impressions_of(rng: np.random.Generator, shown: Impression, number: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield what the log gets of one list, and when."""
    chance, wait_ms = int(rng.integers(1_000)), int(rng.integers(2_000))
    at_ms = shown.shown_at_ms + wait_ms
    if chance < 10:  # lost
        return
    if chance < 20:
        at_ms += HORIZON_MS  # too late, or nearly so
    elif chance < 80:
        at_ms += wait_ms * 8  # after its first clicks
    yield at_ms, encode(shown)
    if chance >= 950:
        yield at_ms + wait_ms * 50, encode(shown)  # sent again; a few times when its horizon has passed
    elif chance >= 930:
        yield at_ms + wait_ms, encode(replace(shown, rendered=shown.rendered % shown.size + 1, ranked_by_offset=-1))
    elif chance >= 920:  # the same id for another list, after the horizon of the first
        again = replace(shown, shown_at_ms=shown.shown_at_ms + 2 * HORIZON_MS)
        yield again.shown_at_ms, encode(again)
    elif chance >= 910:
        yield at_ms, bad_impression(replace(shown, impression_id=f"bad{number}"), number % 11)


def bad_impression(good: Impression, kind: int) -> bytes | None:
    numbers = len(good.contexts) // 4 or good.size
    if kind < 3:
        return (None, b"no Avro at all", encode(Click("i", "s", 1, good.shown_at_ms)))[kind]
    changes = (
        {"bucket": "nobody's"},
        {"rendered": 0},
        {"rendered": good.size + 1},
        {"contexts": np.zeros(numbers + good.size, "<f4").tobytes()},
        {"contexts": np.full(numbers, 9.0, "<f4").tobytes()},
        {"contexts": np.full(numbers, np.nan, "<f4").tobytes()},
        {"items": np.full(good.size, np.iinfo(np.int64).min, "<i8").tobytes()},
        {"shown_at_ms": good.shown_at_ms + HORIZON_MS},
    )
    return encode(replace(good, **changes[kind - 3]))


def clicks_of(rng: np.random.Generator, shown: Impression, number: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the clicks on one list and when they arrive: half of the lists get none, some are clicked down to the end.

    A position may lie below those that were rendered, and a click may be dated a little before its list.
    """
    most = int(BUCKETS[shown.bucket].reward_scale * 4)
    for _ in range(int(rng.integers(1, 5)) if rng.integers(2) else 0):
        chance, delay_ms = int(rng.integers(1_000)), int(rng.integers(-1_000, WAIT_MS - 10_000))
        if chance < 60:
            delay_ms += WAIT_MS  # corrects its list
        elif chance < 80:
            delay_ms += HORIZON_MS  # beyond the horizon, or nearly so
        clicked_at, position = shown.shown_at_ms + delay_ms, int(rng.integers(1, shown.size + 1))
        reward = int(rng.integers(most + 1)) / 4 if chance % 2 else 1.0  # 0 is a click without reward
        click = Click(shown.impression_id, shown.session_id, position, clicked_at, reward)
        at_ms = clicked_at + int(rng.integers(1_000))
        yield at_ms, encode(click)
        if chance >= 940:
            yield at_ms + delay_ms // 2, encode(click)  # the same click again
        elif chance >= 900:
            yield at_ms + delay_ms, encode(replace(click, reward=most / 4))  # another one on its position, worth more
        elif chance >= 890:
            yield at_ms, bad_click(click, shown, number % 8)


def bad_click(good: Click, shown: Impression, kind: int) -> bytes | None:
    if kind < 3:
        return (None, b"\xc3\x01no Avro", encode(shown))[kind]
    changes = (
        {"position": 0},
        {"position": shown.size + 1},
        {"reward": -1.0},
        {"reward": float("nan")},
        {"reward": 64.0},
    )
    return encode(replace(good, **changes[kind - 3]))


def written(rng: np.random.Generator, arrivals: list[Arrival]) -> Log:
    """Return what arrives as a log: in an order where time stamps do not always rise, with gaps between offsets."""
    arrivals = sorted(arrivals, key=lambda one: one.at_ms + one.jitter_ms)  # stable: equal times stay in order
    steps = np.where(rng.integers(50, size=len(arrivals)) == 0, 2, 1)  # markers of transactions take offsets
    offsets = (np.cumsum(steps) + int(rng.integers(100))).tolist()
    return [
        Record(offset, one.at_ms, f"s{one.session}".encode(), one.value)
        for offset, one in zip(offsets, arrivals, strict=True)
    ]


def sha256_of(partitions: list[tuple[Log, Log]]) -> str:
    """Return the hash of all logs, offsets and time stamps with them."""
    digest = sha256()
    for number, pair in enumerate(partitions):
        for topic, log in zip(("impressions", "clicks"), pair, strict=True):
            digest.update(f"{topic} {number} {len(log)}\n".encode())
            for offset, timestamp, key, value in log:
                digest.update(f"{offset} {timestamp} {key!r} {-1 if value is None else len(value)}\n".encode())
                digest.update(value or b"")
    return digest.hexdigest()
