"""Simulated users, ranked by their bucket's ranker, who answer late and out of order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from learner.simulate import World, browsing_table
from schemas.records import Click, Impression
from streams.events import Event
from streams.rank.job import Ranker
from streams.settings import Bucket, SplitSettings
from streams.split import Split

DIM, POSITIONS = 10, 10
ITEMS, CANDIDATES = 5000, 2000
RANDOM = "random"  # the bucket whose lists are drawn by lot
ORDER = (RANDOM, "pbm-ucb", "cm-linucb", "c2ucb", "dcm-linucb", "ubm-linucb")
CLICK_DELAY_MS = 4000.0
TWICE = 0.03  # the share of events that are delivered twice


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
    tables = {"pbm-ucb": table[:, 0], "ubm-linucb": table}
    drawn, *learned = ORDER
    return {drawn: Bucket(drawn, "random", DIM, POSITIONS)} | {
        name: Bucket(name, name, DIM, POSITIONS, tables.get(name), alpha=alpha) for name in learned
    }


class Crowd:
    """Users who come by in the order of time, each always to the same bucket."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed + 1)
        table = browsing_table(POSITIONS)
        self.world = World.random(
            np.random.default_rng(seed), dim=DIM, examination=table, items=ITEMS, candidates=CANDIDATES
        )
        self._split = Split({"": dict.fromkeys(ORDER, 1.0)}, SplitSettings(salt=f"demo {seed}"))
        self._lists = 0
        self.coming: list[tuple[int, int, Event]] = []  # events on their way, by time of arrival
        self._numbered = 0

    def visits(self, rankers: Mapping[str, Ranker], *, from_ms: int, to_ms: int, number: int) -> Iterator[Visit]:
        """Yield ``number`` visits between two instants; their events arrive then or later."""
        for at_ms in np.sort(self._random.integers(from_ms, to_ms, number)).tolist():
            yield self._visit(rankers, at_ms)

    def arrived(self, by_ms: int) -> list[Event]:
        """Return the events that have arrived by now, in the order of their arrival."""
        events = []
        while self.coming and self.coming[0][0] <= by_ms:
            events.append(heappop(self.coming)[2])
        return events

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
        for _ in range(2 if self._random.random() < TWICE else 1):
            self._numbered += 1
            heappush(self.coming, (at_ms + int(self._random.integers(spread_ms)), self._numbered, event))
