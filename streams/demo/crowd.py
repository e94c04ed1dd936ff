"""Simulated users, ranked by their bucket's ranker, who answer late and out of order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np

from learner.simulate import World, browsing_table
from schemas.records import Click, Impression
from streams.events import Event
from streams.rank.job import Ranker
from streams.settings import Bucket
from streams.split import Split

DIM, POSITIONS = 10, 10
ITEMS, CANDIDATES = 5000, 2000
RANDOM = "random"  # the bucket whose lists are drawn by lot
CLICK_DELAY_MS = 4000.0
TWICE = 0.03  # the share of events that are delivered twice


class ClosedLoop(Protocol):
    """What carries events to the learners and their snapshots back: the embedded runner, or the real jobs."""

    def append(self, events: Iterable[Event], *, at_ms: int) -> None:
        """Log events that arrive now."""

    def step(self, now_ms: int) -> object:
        """Let what is due happen."""

    def ranker(self, bucket: str, **options: Any) -> Ranker:
        """Return a ranker of a bucket's snapshots."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One list that was shown, and what came of it."""

    bucket: str
    at_ms: int
    clicks: int
    regret: float


def buckets(alpha: float) -> dict[str, Bucket]:
    """Return one bucket per algorithm, all with the same α, and the one that draws by lot."""
    table = browsing_table(POSITIONS)
    linear = {name: Bucket(name, name, DIM, POSITIONS, alpha=alpha) for name in ("c2ucb", "cm-linucb", "dcm-linucb")}
    return {
        RANDOM: Bucket(RANDOM, "random", DIM, POSITIONS),
        "pbm-ucb": Bucket("pbm-ucb", "pbm-ucb", DIM, POSITIONS, table[:, 0], alpha=alpha),
        "cm-linucb": linear["cm-linucb"],
        "c2ucb": linear["c2ucb"],
        "dcm-linucb": linear["dcm-linucb"],
        "ubm-linucb": Bucket("ubm-linucb", "ubm-linucb", DIM, POSITIONS, table, alpha=alpha),
    }


class Crowd:
    """Users who come by in the order of time, each always to the same bucket."""

    def __init__(self, seed: int, names: Iterable[str]) -> None:
        self._random = np.random.default_rng(seed + 1)
        self.world = World.random(
            np.random.default_rng(seed),
            dim=DIM,
            examination=browsing_table(POSITIONS),
            items=ITEMS,
            candidates=CANDIDATES,
        )
        self._split = Split({"": dict.fromkeys(names, 1.0)}, salt=f"demo {seed}")
        self._lists = 0
        self._coming: list[tuple[int, int, Event]] = []  # by time of arrival
        self._numbered = 0

    def visits(self, rankers: Mapping[str, Ranker], *, from_ms: int, to_ms: int, number: int) -> Iterator[Visit]:
        """Yield ``number`` visits between two instants; their events arrive then or later."""
        for at_ms in np.sort(self._random.integers(from_ms, to_ms, number)).tolist():
            yield self._visit(rankers, at_ms)

    def arrived(self, by_ms: int) -> list[Event]:
        """Return the events that have arrived by now, in the order of their arrival."""
        events = []
        while self._coming and self._coming[0][0] <= by_ms:
            events.append(heappop(self._coming)[2])
        return events

    @property
    def waiting(self) -> bool:
        """Whether events are still on their way."""
        return bool(self._coming)

    def _visit(self, rankers: Mapping[str, Ranker], at_ms: int) -> Visit:
        random, world = self._random, self.world
        user = f"u{random.integers(1_000_000)}"
        bucket = self._split.bucket_of(user)
        items, contexts = world.visit(random)
        if bucket == RANDOM:
            rows = random.permutation(len(items))[:POSITIONS]  # not the ranker's own lots, which no seed repeats
            chances = (1 / np.arange(len(items), len(items) - POSITIONS, -1)).astype("<f4")
        else:
            rows = rankers[bucket].rank(contexts, size=POSITIONS, items=items)
            chances = np.empty(0, dtype="<f4")
        version = rankers[bucket].version
        shown = contexts[rows]
        clicked = np.flatnonzero(world.users.browse(shown[None], random)[0]) + 1
        self._lists += 1
        name, session = f"list-{self._lists}", f"{user}-{self._lists}"
        impression = Impression(
            impression_id=name,
            session_id=session,
            bucket=bucket,
            user_id=user,
            shown_at_ms=at_ms,
            items=items[rows].astype("<i8").tobytes(),
            contexts=shown.astype("<f4").tobytes(),
            rendered=POSITIONS,
            ranked_by_epoch=version[0],
            ranked_by_offset=version[1],
            split_version=self._split.version,
            propensities=chances.tobytes(),
        )
        self._send(impression, at_ms, spread_ms=800)
        at = at_ms
        for position in clicked.tolist():
            at += 200 + int(random.exponential(CLICK_DELAY_MS))
            self._send(Click(name, session, position, at), at, spread_ms=1500)
        best = contexts[world.users.best_rows(contexts, POSITIONS)]
        regret = float(world.users.expected_reward(best) - world.users.expected_reward(shown))
        return Visit(bucket, at_ms, len(clicked), regret)

    def _send(self, event: Event, at_ms: int, *, spread_ms: int) -> None:
        for _ in range(1 + (self._random.random() < TWICE)):
            self._numbered += 1
            heappush(self._coming, (at_ms + int(self._random.integers(spread_ms)), self._numbered, event))
