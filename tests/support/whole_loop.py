"""Serve, Kafka, join, learn, Redis and serve again, with simulated users, and what must hold after it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs import Jobs, wait_until

from streams.demo import Crowdedness, Storefront, Traffic, write_shop
from streams.demo.crowd import buckets
from streams.join import Ledger
from streams.ledger.job import audit
from streams.local.server import free_port
from streams.logs.job import open_source
from streams.parameters.job import RedisParameters
from streams.rank import read_catalogue
from streams.settings import Settings

BUCKETS = buckets(alpha=0.3)  # five algorithms and a random one


@dataclass(frozen=True, slots=True)
class Loop:
    """A worker and a ranking service, and where it answers."""

    settings: Settings
    jobs: Jobs
    shop: Storefront
    url: str

    def play(self, how: Crowdedness) -> Traffic:
        """Let users come; return what they met."""
        users = Traffic(self.url, self.shop, how, seed=1)
        asyncio.run(users.run(print))
        self.jobs.check()
        return users

    def ledger(self) -> Ledger:
        """What became of all events, over all partitions, once no list is open and all is in snapshots."""
        found: list[Ledger] = []

        def settled() -> bool:
            result = audit(open_source("kafka", self.settings), self.settings)
            found[:] = result.ledgers.values()
            return bool(found) and not result.problems and not any(one.open or one.waiting for one in found)

        wait_until(settled, timeout_s=120, jobs=self.jobs, every_s=1.0)
        counts = Counter[str]()
        for one in found:
            counts.update(one.counts())
        return Ledger(**counts)


@contextmanager
def whole_loop(settings: Settings, folder: Path) -> Iterator[Loop]:
    """Start a worker and a service on a made-up shop."""
    file, port = folder / "shop.npz", free_port()
    write_shop(file, seed=1)
    jobs = Jobs(settings, folder)
    try:
        jobs.start("worker", "--from", "earliest")
        jobs.start("serve", "--catalogue", str(file), "--port", str(port), "--deadline", "30")
        yield Loop(settings, jobs, Storefront(read_catalogue(file), seed=1), f"http://127.0.0.1:{port}")
    finally:
        jobs.close()


def check_everything_counted(loop: Loop, users: Traffic) -> None:
    """Every list and click that the service took is in the ledger, and Redis has models of as many rounds as lists."""
    book = loop.ledger()
    assert (book.impressions, book.lists, book.dead_impressions, book.too_late) == (len(users.visits),) * 2 + (0, 0)
    assert (book.clicks, book.late, book.dead_clicks) == (users.clicks, 0, 0)
    assert set(users.answers) == {"/rank: 200", "/feedback: 202"}
    shown = Counter(visit.bucket for visit in users.visits)
    with closing(RedisParameters(loop.settings)) as store:
        wait_until(  # Redis is filled after Kafka
            lambda: {name: store.newest(name).rounds for name in loop.settings.buckets} == shown,
            timeout_s=60,
            jobs=loop.jobs,
        )
