"""A service that ranks with Glimpse and tells it what happened.

    python examples/service.py --visits 500      # beside a running Glimpse: README, "Deploy the stream job"

Users are split into buckets by a hash, so that each always meets the same algorithm. The bucket `control` keeps the
service's own order: what the others are compared with. Lists and clicks of all buckets are logged alike. Put your own
items and features in the place of `Catalogue`; the rest is what a service needs.
"""

import argparse
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.client import DeliveryError, EventWriter
from streams.ranker import Ranker, SnapshotMissing
from streams.settings import Settings, load
from streams.split import Split

SIZE, DIM = 12, 10


class Shown(NamedTuple):
    """A list on a user's screen: what a click must name."""

    impression_id: str
    session_id: str
    bucket: str
    items: NDArray[np.int64]


class Recommender:
    """Ranks candidates for a user, and logs what was shown and clicked. One per process, shared by its threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.split = Split.of(settings)  # by the weights in glimpse.toml
        self.events = EventWriter(settings)
        self.rankers: dict[str, Ranker] = {}

    def show(self, user_id: str, session_id: str, items: NDArray[np.int64], contexts: NDArray[np.float64]) -> Shown:
        """Return the list for a user from candidates in the service's own order."""
        bucket = self.split.bucket_of(user_id)
        ranker = None if bucket == "control" else self.ranker(bucket)
        if ranker is None:
            rows, version = np.arange(SIZE), (0, -1)  # nobody's model: the service's own order
        else:
            rows, version = ranker.rank(contexts, size=SIZE), ranker.version
        impression_id = self.events.impression(
            items[rows],
            contexts[rows],
            session_id=session_id,
            bucket=bucket,
            user_id=user_id,
            split_version=self.split.version,  # so that glimpse compare knows who was split how
            ranked_by=version,
        )
        return Shown(impression_id, session_id, bucket, items[rows])

    def click(self, shown: Shown, position: int) -> None:
        """Log a click on a position, 1 being the top."""
        self.events.click(shown.impression_id, position, session_id=shown.session_id)

    def ranker(self, bucket: str) -> Ranker | None:
        """Return the bucket's ranker, or None before its first snapshot: a new bucket must not take the page down."""
        if bucket not in self.rankers:
            make = Ranker.from_redis if self.settings.redis else Ranker.from_kafka
            try:
                self.rankers[bucket] = make(self.settings, bucket=bucket)  # looks for newer snapshots by itself
            except SnapshotMissing:
                return None
        return self.rankers[bucket]

    def __enter__(self) -> "Recommender":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for ranker in self.rankers.values():
            ranker.close()
        self.events.close()  # waits until Kafka has every event


class Catalogue:
    """Stands for your items and features: 400 items, and a context of 10 numbers within ±1 for each candidate."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.features = random.uniform(-0.3, 0.3, (400, DIM))
        self.taste = random.uniform(-0.5, 0.5, DIM)  # what the simulated users like; a real service cannot know it

    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return 40 items that might be shown, in the service's own order, and their contexts."""
        items = self.random.choice(len(self.features), 40, replace=False)
        return items, self.features[items]

    def clicked(self, items: NDArray[np.int64]) -> Iterator[int]:
        """Yield the positions that a simulated user clicks: she looks at the top more often than at the end."""
        looked_at = 1 / np.sqrt(np.arange(1, len(items) + 1))
        likes = np.clip(0.2 + self.features[items] @ self.taste, 0, 1)
        yield from (np.flatnonzero(self.random.random(len(items)) < looked_at * likes) + 1).tolist()


def main() -> None:
    """Serve simulated visitors, and print what each bucket earned."""
    parser = argparse.ArgumentParser(description="A service with simulated visitors.")
    parser.add_argument("--visits", type=int, default=500)
    parser.add_argument("--rate", type=float, default=50.0, help="visits a second")
    wanted = parser.parse_args()
    random = np.random.default_rng()
    catalogue = Catalogue(random)
    earned: dict[str, list[int]] = defaultdict(list)
    with Recommender(load()) as recommender:  # GLIMPSE_* variables and ./glimpse.toml
        for _ in range(wanted.visits):
            shown = recommender.show(f"user-{random.integers(10_000)}", uuid.uuid4().hex, *catalogue.candidates())
            clicks = list(catalogue.clicked(shown.items))
            for position in clicks:
                recommender.click(shown, position)
            earned[shown.bucket].append(len(clicks))
            time.sleep(1 / wanted.rate)
        for bucket, counts in sorted(earned.items()):
            ranker = recommender.rankers.get(bucket)
            by = "its own order" if ranker is None else f"snapshot {ranker.version[0]}.{ranker.version[1]}"
            print(f"{bucket:<8} {len(counts)} lists, {np.mean(counts):.2f} clicks a list, last ranked by {by}")


if __name__ == "__main__":
    try:
        main()
    except DeliveryError as error:  # no Kafka, or no topics: it says what to do
        sys.exit(str(error))
