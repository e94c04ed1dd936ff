"""Two small logs with everything that goes wrong, a slow look at the whole of them, and any way of reading them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance
from streams.join import Checkpoint, Commit, SessionJoin
from streams.logs import LogRecord
from streams.settings import Bucket

HORIZON, FUTURE = 9, 3
BUCKETS = {
    "a": Bucket("a", dim=1, positions=3),
    "b": Bucket("b", dim=2, positions=2, context_scale=2.0, reward_scale=4.0),
}
ACCEPT = Acceptance(BUCKETS, future_ms=FUTURE)
FOREVER = 10_000


def impression(name: str, bucket: str, shown_at: int, size: int, rendered: int) -> Impression:
    dim = BUCKETS[bucket].dim
    items = np.arange(size, dtype="<i8") + shown_at * 10
    contexts = np.linspace(-1, 1, size * dim, dtype="<f4")
    return Impression(name, "s", bucket, "u", shown_at, items.tobytes(), contexts.tobytes(), rendered, 1, shown_at)


@dataclass
class Net:
    lists: dict[int, tuple]  # impressions offset -> what is learned from it
    dead: set[tuple[str, int]]
    late: set[int]
    counts: dict[str, int]


def look_at_all(impressions: list[tuple], clicks: list[tuple]) -> Net:
    """Judge every event with both logs in view. An event is (offset, timestamp, record or None)."""
    accepted, rewards, dead, late, counts = [], {}, set(), set(), Counter()
    clock = -math.inf
    for offset, timestamp, event in impressions:
        clock = max(clock, timestamp)
        bucket = BUCKETS.get(event.bucket) if event else None
        if bucket is None or not fits(event, bucket) or event.shown_at_ms > timestamp + FUTURE:
            dead.add(("impressions", offset))
            continue
        if clock > event.shown_at_ms + HORIZON:
            dead.add(("impressions", offset))
            counts["too_late"] += 1
            continue
        named = [(o, e) for o, e in accepted if e.impression_id == event.impression_id]
        if named and clock <= named[-1][1].shown_at_ms + HORIZON:
            if replace(named[-1][1], session_id="", user_id="") == replace(event, session_id="", user_id=""):
                counts["duplicates"] += 1
            else:
                dead.add(("impressions", offset))
            continue
        accepted.append((offset, event))
        rewards[offset] = {}
    clock = -math.inf
    for offset, timestamp, click in clicks:
        clock = max(clock, timestamp)
        if click is None or click.position < 1 or not 0 <= click.reward < math.inf:
            dead.add(("clicks", offset))
            continue
        if click.clicked_at_ms > timestamp + FUTURE:
            dead.add(("clicks", offset))
            continue
        takers = [
            (o, e)
            for o, e in accepted
            if e.impression_id == click.impression_id
            and clock <= e.shown_at_ms + HORIZON
            and e.shown_at_ms <= click.clicked_at_ms + FUTURE
        ]
        if not takers:
            late.add(offset)
        elif click.position > takers[0][1].size or click.reward > BUCKETS[takers[0][1].bucket].reward_scale:
            dead.add(("clicks", offset))
        else:
            clicked = rewards[takers[0][0]]
            counts["repeated" if click.position in clicked else "used"] += 1
            clicked[click.position] = max(clicked.get(click.position, 0.0), click.reward)
    return Net({o: sample(e, rewards[o]) for o, e in accepted}, dead, late, counts)


def fits(event: Impression, bucket: Bucket) -> bool:
    numbers = np.frombuffer(event.contexts, "<f4")
    return (
        1 <= event.rendered <= event.size <= bucket.positions
        and len(numbers) == event.size * bucket.dim
        and bool((np.abs(numbers) <= bucket.context_scale).all())
    )


def sample(event: Impression, clicked: dict[int, float]) -> tuple:
    rows, last = [], 0
    for k in range(1, max(event.rendered, *clicked, 1) + 1):
        context = tuple(event.contexts_array[k - 1].tolist())
        rows.append((int(event.items_array[k - 1]), k, last, clicked.get(k, 0.0), context))
        last = k if clicked.get(k, 0.0) > 0 else last
    return event.bucket, event.impression_id, event.shown_at_ms, event.ranked_by_offset, tuple(rows)


class Reader:
    """Drives a join over two logs, through crashes: what was not committed is lost and read again."""

    def __init__(self, impressions: list[tuple], clicks: list[tuple]) -> None:
        self.logs = {"impressions": list(map(logged, impressions)), "clicks": list(map(logged, clicks))}
        self.accept, self.commit = ACCEPT, Commit.beginning(ACCEPT.hash)
        self.samples, self.dead, self.late = Counter(), Counter(), Counter()
        self.restart(3, HORIZON)

    def restart(self, wait: int, horizon: int) -> None:
        decoded, topic_ids = Commit.decode(*self.commit.encode(("x", "y")))
        assert decoded == self.commit
        assert topic_ids == ("x", "y")
        self.join = SessionJoin(self.accept, wait_ms=wait, lateness_ms=horizon - wait, resume=decoded)
        self.parts = {"impressions": decoded.impressions, "clicks": decoded.clicks}
        self.next = {name: part.place.offset for name, part in self.parts.items()}

    def ahead(self, name: str) -> list[LogRecord]:
        return [record for record in self.logs[name] if record.offset >= self.next[name]]

    def feed(self, name: str, count: int) -> None:
        records = self.ahead(name)[:count]
        if self.join.rebuilding:  # what lies beyond waits until both logs are there
            records = [record for record in records if record.offset < self.parts[name].processed]
            if not records:
                self.next[name] = max(self.next[name], self.parts[name].processed)
        if records:
            self.next[name] = records[-1].offset + 1
        getattr(self.join, f"add_{name}")(records, self.next[name])

    def rebuild(self) -> None:
        while self.join.rebuilding:
            self.feed("impressions", 2)
            self.feed("clicks", 3)

    def checkpoint(self, clock: int) -> None:
        self.take(self.join_cut(clock))

    def checkpoint_a_little(self, clock: int) -> None:
        """One list, or those of one time."""
        self.take(self.join_cut(clock, most_bytes=1))

    def join_cut(self, clock: int, **options: int) -> Checkpoint:
        self.rebuild()
        return self.join.checkpoint(clock, **options)

    def take(self, checkpoint: Checkpoint) -> None:
        for batch in checkpoint.samples:
            self.samples.update(signed_lists(batch))
        self.dead.update((letter.topic, letter.offset) for letter in checkpoint.dead_letters)
        self.late.update(record.offset for record in checkpoint.late_clicks)
        assert self.join.ledger.balanced
        assert checkpoint.commit.ledger == self.join.ledger
        self.commit = checkpoint.commit

    def idle(self, which: int) -> None:
        """A log that was read to its end is as far as its next record will be."""
        self.rebuild()
        until = {name: min((r.timestamp for r in self.ahead(name)), default=FOREVER) for name in self.logs}
        self.join.idle(
            impressions_ms=until["impressions"] if which & 1 else None, clicks_ms=until["clicks"] if which & 2 else None
        )

    def follow(self, plan: list[tuple[str, int]]) -> None:
        for step, number in plan:
            if step == "restart":
                self.restart(number, HORIZON)
            elif step in self.logs:
                self.feed(step, number)
            else:
                getattr(self, step)(number)

    def finish(self) -> None:
        self.rebuild()
        for name, log in self.logs.items():
            self.feed(name, len(log))
        self.idle(3)
        self.checkpoint(0)


def logged(entry: tuple) -> LogRecord:
    offset, timestamp, event = entry
    return LogRecord(offset, timestamp, b"s", encode(event) if event else b"\xc3\x01garbage")


def signed_lists(batch: object) -> Counter:
    found, row = Counter(), 0
    table = zip(
        batch.items_array.tolist(),
        batch.positions_array.tolist(),
        batch.last_clicks_array.tolist(),
        batch.rewards_array.tolist(),
        map(tuple, batch.contexts_array.tolist()),
        strict=True,
    )
    rows = list(table)
    for index, size in enumerate(batch.sizes_array.tolist()):
        entry = (
            *(batch.bucket, batch.impression_ids[index], int(batch.shown_at_ms_array[index])),
            *(int(batch.ranked_by_offsets_array[index]), tuple(rows[row : row + size])),
        )
        found[int(batch.source_offsets_array[index]), entry] += int(batch.signs_array[index])
        row += size
    return found


def traffic(rng: Random) -> tuple[list[tuple], list[tuple]]:
    """Return logs in which most clicks are real, some early, repeated, late or lost, and some ids are used again."""
    shown, taps, now = [], [], 20
    for number in range(60):
        now += rng.choice([0, 0, 1, 1, 2, rng.randint(0, HORIZON)])
        name = f"i{number}" if rng.random() < 0.8 or not shown else rng.choice(shown[-20:])[1].impression_id
        bucket, size = rng.choice([("a", 3), ("a", 2), ("b", 2)])
        event = impression(name, bucket, now, size, rng.randint(1, size))
        times = rng.choice([1, 1, 1, 1, 2, 0])  # some come twice, some are lost
        shown += [(now + rng.choice([0, 0, 0, 1, 3, HORIZON, HORIZON + 2]), event) for _ in range(times)]
        for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
            clicked_at = now + rng.choice([-FUTURE, 0, 1, 2, 3, HORIZON])
            arrives = clicked_at + rng.choice([-FUTURE - 1, -1, 0, 0, 1, 2, HORIZON - 2, HORIZON, HORIZON + FUTURE + 1])
            tap = Click(name, "s", rng.choice([1, 2, 2, 3, 4]), clicked_at, rng.choice([1.0, 1.0, 1.0, 0.5, 0.0, 2.0]))
            taps += [(arrives + again, tap) for again in range(rng.choice([1, 1, 1, 2]))]
    return in_log_order(rng, shown), in_log_order(rng, taps)


def in_log_order(rng: Random, events: list[tuple]) -> list[tuple]:
    events.sort(key=lambda event: event[0] + rng.choice([0, 0, 0, 2]))  # time stamps do not always rise
    offset, log = rng.randint(0, 3), []
    for timestamp, event in events:
        log.append((offset, timestamp, event))
        offset += rng.choice([1, 1, 1, 2])
    return log


def random_plan(rng: Random) -> list[tuple[str, int]]:
    plan, lean = [], rng.choice([0.2, 0.5, 0.8])  # one log may run far ahead of the other
    for _ in range(80):
        plan.append(("impressions" if rng.random() < lean else "clicks", rng.randint(1, 8)))
        if rng.random() < 0.5:
            how = rng.choice(["checkpoint", "checkpoint", "checkpoint_a_little"])
            plan.append((how, rng.choice([0, rng.randint(20, 200)])))
        if rng.random() < 0.15:
            plan.append(("idle", rng.randint(0, 3)))
        if rng.random() < 0.15:
            plan.append(("restart", rng.randint(0, HORIZON)))
    return plan
