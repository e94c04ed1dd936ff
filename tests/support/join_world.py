"""Two small logs with everything that goes wrong, and any way of reading them: batches, crashes, other settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import numpy as np
from join_reference import Era
from msgspec.structs import replace

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance, EventReader
from streams.join import Checkpoint, Commit, SessionJoin
from streams.logs import LogRecord
from streams.settings import Bucket, LogPair

HORIZON, FUTURE = 9, 3
BUCKETS = {
    "a": Bucket("a", dim=1, positions=3),
    "b": Bucket("b", dim=2, positions=2, context_scale=2.0, reward_scale=4.0),
}
FOREVER = 1 << 61
FAR = (0, 1, 2**40, 2**60, 2**62, 2**63 - 1)  # stamps that no honest record has


def impression(name: str, bucket: str, shown_at: int, size: int, rendered: int) -> Impression:
    dim = BUCKETS[bucket].dim
    items = np.arange(size, dtype="<i8") + shown_at * 10
    contexts = np.linspace(-1, 1, size * dim, dtype="<f4")
    plain = Impression(
        name, session(name), bucket, "u", shown_at, items.tobytes(), contexts.tobytes(), rendered, 1, shown_at
    )
    drawn = np.linspace(0.25, 1, size, dtype="<f4").tobytes()
    notes = ({}, {"split_version": "v1"}, {"split_version": "v2", "propensities": drawn}, {"propensities": drawn})
    return replace(plain, **notes[shown_at % 4])


def session(name: str) -> str:
    """Return the session of a list: some have one of their own, some share it."""
    return f"s{sum(map(ord, name)) % 5}"


class Reader:
    """Drives a join over two logs, through crashes and changes of settings: what was not committed is read again."""

    def __init__(self, impressions: list[tuple], clicks: list[tuple]) -> None:
        self.logs = {"impressions": list(map(logged, impressions)), "clicks": list(map(logged, clicks))}
        self.commit, self.known = Commit.beginning(), {}
        self.samples, self.dead, self.late = Counter(), Counter(), Counter()
        self.eras: list[Era] = []
        self.silences: dict[str, list[tuple[int, int]]] = {"impressions": [], "clicks": []}
        self.most_bytes = (1, 1 << 30)[len(clicks) % 2]  # of a checkpoint: letters wait for room, or never
        self.restart(3)

    def restart(
        self, wait: int, *, horizon: int = HORIZON, future: int = FUTURE, buckets: Mapping[str, Bucket] = BUCKETS
    ) -> None:
        decoded, topic_ids = Commit.decode(*self.commit.encode(LogPair("x", "y")))
        assert decoded == self.commit
        assert topic_ids == ("x", "y")
        wait = min(wait, horizon)
        self.join = SessionJoin(
            Acceptance(buckets, future_ms=future),
            wait_ms=wait,
            lateness_ms=horizon - wait,
            resume=decoded,
            known=self.known,
            reader=EventReader(),
        )
        self.parts = {"impressions": decoded.impressions, "clicks": decoded.clicks}
        self.next = {name: part.restart.offset for name, part in self.parts.items()}
        offsets = (0, 0) if not self.eras else tuple(part.processed for part in self.parts.values())
        self.era = Era(*offsets, buckets, horizon, future)
        self.silent: list[tuple[str, int, int]] = []  # since the commit

    def ahead(self, name: str) -> list[LogRecord]:
        return [record for record in self.logs[name] if record.offset >= self.next[name]]

    def feed(self, name: str, count: int) -> None:
        records = self.ahead(name)[:count]
        if self.join.rebuilding:  # what lies beyond waits until both logs are there
            records = [record for record in records if record.offset < self.parts[name].processed]
            if not records:
                self.next[name] = max(self.next[name], self.parts[name].processed)
        elif not self.join.room_for(records, self.most_bytes):
            return
        if records:
            self.next[name] = records[-1].offset + 1
        getattr(self.join, f"add_{name}")(records, self.next[name])

    def rebuild(self) -> None:
        while self.join.rebuilding:
            self.feed("impressions", 2)
            self.feed("clicks", 3)

    def checkpoint(self, clock: int) -> None:
        self.rebuild()
        self.take(self.join.checkpoint(clock))

    def checkpoint_a_little(self, clock: int) -> None:
        """One list, or those of one time; clicks that are late likewise."""
        self.rebuild()
        self.take(self.join.checkpoint(clock, most_bytes=1))

    def take(self, checkpoint: Checkpoint) -> None:
        for batch in checkpoint.samples:
            self.samples.update(signed_lists(batch))
        self.dead.update((letter.topic, letter.offset) for letter in checkpoint.dead_letters)
        self.late.update(record.offset for record in checkpoint.late_clicks)
        assert self.join.ledger.balanced
        assert checkpoint.commit.ledger == self.join.ledger
        self.commit = checkpoint.commit
        self.known |= {rules.hash: rules.rules for rules in checkpoint.rules}
        if not self.eras or rules_of(self.eras[-1]) != rules_of(self.era):
            self.eras.append(self.era)
        for name, offset, floor in self.silent:
            self.silences[name].append((offset, floor))
        self.silent = []

    def idle(self, which: int) -> None:
        """A log that was read to its end is as far as its next record will be."""
        self.quiet(which, {name: min((r.timestamp for r in self.ahead(name)), default=FOREVER) for name in self.logs})

    def idle_too_far(self, which: int) -> None:
        """A worker that is wrong about that: what it forgets is gone, but it must stay so."""
        self.quiet(which % 4, dict.fromkeys(self.logs, 20 + which))

    def quiet(self, which: int, until: dict[str, int]) -> None:
        self.rebuild()
        times = {name: time for bit, (name, time) in enumerate(until.items()) if which >> bit & 1}
        self.join.idle(impressions_ms=times.get("impressions"), clicks_ms=times.get("clicks"))
        for name, time in times.items():
            self.silent.append((name, getattr(self.join, name).offset, time - self.era.horizon))

    def follow(self, plan: list[tuple[str, int]]) -> None:
        for step, number in plan:
            if step in self.logs:
                self.feed(step, number)
            else:
                getattr(self, step)(number)

    def finish(self) -> None:
        self.most_bytes = 1 << 30
        self.checkpoint(0)
        for name, log in self.logs.items():
            self.feed(name, len(log))
        self.quiet(3, dict.fromkeys(self.logs, FOREVER))
        self.checkpoint(0)


def rules_of(era: Era) -> tuple:
    return era.buckets, era.horizon, era.future


def logged(entry: tuple) -> LogRecord:
    offset, timestamp, event = entry
    if event is None:
        return LogRecord(offset, timestamp, None, b"\xc3\x01garbage")
    return LogRecord(offset, timestamp, event.session_id.encode(), encode(event))


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
            batch.bucket,
            batch.impression_ids[index],
            int(batch.shown_at_ms_array[index]),
            int(batch.ranked_by_offsets_array[index]),
            tuple(rows[row : row + size]),
            batch.split_version,
            tuple(batch.user_hashes_array[index : index + 1].tolist()),
            tuple(batch.propensities_array[row : row + size].tolist()),
        )
        found[int(batch.source_offsets_array[index]), entry] += int(batch.signs_array[index])
        row += size
    return found


def traffic(rng: Random) -> tuple[list[tuple], list[tuple]]:
    """Return logs in which most clicks are real, some early, repeated, late or lost, and some ids are used again."""
    shown, bad, taps, now = [], [], [], 20
    for number in range(60):
        now += rng.choice([0, 0, 1, 1, 2, rng.randint(0, HORIZON)])
        name = f"i{number}" if rng.random() < 0.8 or not shown else rng.choice(shown[-20:])[1].impression_id
        bucket, size = rng.choice([("a", 3), ("a", 2), ("b", 2)])
        event = impression(name, bucket, now, size, rng.randint(1, size))
        times = rng.choice([1, 1, 1, 1, 2, 0])  # some come twice, some are lost
        shown += [(now + rng.choice([0, 0, 0, 1, 3, HORIZON, HORIZON + 2]), event) for _ in range(times)]
        if rng.random() < 0.1:  # a retry that says another time
            again = impression(name, bucket, now + rng.randint(1, 4), size, event.rendered)
            shown.append((now + rng.choice([1, 3, HORIZON + 1]), again))
        if rng.random() < 0.05:
            bad.append((now, rng.choice(bad_impressions(name, now))))
        for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
            clicked_at = now + rng.choice([-FUTURE, 0, 1, 2, 3, HORIZON])
            arrives = clicked_at + rng.choice([-FUTURE - 1, -1, 0, 0, 1, 2, HORIZON - 2, HORIZON, HORIZON + FUTURE + 1])
            of = session(name) if rng.random() < 0.95 else "another"
            tap = Click(name, of, rng.choice([1, 2, 2, 3, 4]), clicked_at, rng.choice([1.0, 1.0, 1.0, 0.5, 0.0, 2.0]))
            taps += [(arrives + again, tap) for again in range(rng.choice([1, 1, 1, 2]))]
    return in_log_order(rng, shown + bad), in_log_order(rng, taps)


def bad_impressions(name: str, now: int) -> list[Impression | None]:
    """Return impressions that are refused for themselves, some of them with an id that others have."""
    good = impression(name, "a", now, 3, 3)
    fields = {one: getattr(good, one) for one in Impression.__struct_fields__}
    changes = (
        {"bucket": "c"},
        {"bucket": "b"},
        {"bucket": "c" * 17_000},  # larger than any event
        {"impression_id": name * 257},
        {"rendered": 0},
        {"rendered": 4},
        {"contexts": np.array([0, np.nan, 0], "<f4").tobytes()},
        {"contexts": np.array([0, 0, 1.5], "<f4").tobytes()},
        {"shown_at_ms": 2**63 - 1},
        {"shown_at_ms": -(2**63)},
    )
    return [None, *(Impression(**(fields | change)) for change in changes)]


def in_log_order(rng: Random, events: list[tuple]) -> list[tuple]:
    events.sort(key=lambda event: event[0] + rng.choice([0, 0, 0, 2]))  # time stamps do not always rise
    offset, log = rng.randint(0, 3), []
    for timestamp, event in events:
        log.append((offset, rng.choice(FAR) if rng.random() < 0.02 else timestamp, event))
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
            plan.append((rng.choice(["idle", "idle", "idle_too_far"]), rng.randint(0, 3)))
        if rng.random() < 0.15:
            plan.append(("restart", rng.randint(0, HORIZON)))
    return plan
