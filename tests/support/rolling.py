"""Workers that come and go by order while there is load, and what must be true of it."""

import re
import signal
import time
from contextlib import ExitStack, contextmanager
from random import Random
from subprocess import Popen

from exactly_once import BUCKETS, LATENESS_S, WAIT_S, Feed, Learned, events
from jobs import Jobs, wait_until
from joined import commits
from kills import COMMANDS

DRAIN_S = 10.0
GENERATION = re.compile(r"generation (\d+) of the group: (?:samples )?partitions \[([\d, ]*)\]")
ASSIGNED = re.compile(r"partitions \[[\d, ]*\]")  # said with the generation, where the client tells it
PIECE_S = 1.5


class Rolling:
    """Workers of both kinds under load; told to go, each ends well within 10 s."""

    def __init__(self, settings_for, folder, *, lists: int, load_s: float) -> None:
        settings = settings_for(
            buckets=BUCKETS, wait_s=WAIT_S, lateness_s=LATENESS_S, partitions=6, publish_every_s=0.3
        )
        self.settings, self.jobs = settings, Jobs(settings, folder)
        self.impressions, self.clicks = events(lists, seed=lists)
        self.result = Learned(settings, self.impressions, self.clicks)
        self.workers: dict[str, list[Popen[bytes]]] = {kind: [] for kind in COMMANDS}
        self.feed: Feed | None = None
        self._pieces = int(load_s / PIECE_S)

    def start(self, count: int) -> None:
        """Start so many workers of each kind, and wait until the group has given them something to do."""
        new = [(kind, self.jobs.start(*command)) for kind, command in COMMANDS.items() for _ in range(count)]
        for kind, worker in new:
            self.workers[kind].append(worker)
        wait_until(
            lambda: all(ASSIGNED.search(self.jobs.logs[worker.pid].read_text()) for _, worker in new),
            timeout_s=60,
            jobs=self.jobs,
        )
        if self.feed is None:
            self.feed = Feed(self.settings, self.impressions, self.clicks, pieces=self._pieces, every_s=PIECE_S)

    def end(self, count: int) -> None:
        """Tell the oldest so many of each kind to go."""
        assert self.feed is not None
        for workers in self.workers.values():
            for worker in workers[:count]:
                assert not self.feed.ended, "workers must be told while there is load"
                assert self.jobs.terminate(worker, timeout_s=DRAIN_S) == 0, self.jobs.printed()
            del workers[:count]

    def check(self) -> None:
        """Wait for the end of the load: the bits of the reference, and never two owners of a partition."""
        assert self.feed is not None
        self.feed.finish()
        wait_until(lambda: self.feed.ended, timeout_s=400, jobs=self.jobs)
        wait_until(self.result.complete, timeout_s=90, jobs=self.jobs)
        ledgers = [commit.ledger for commit in commits(self.settings)]
        assert all(ledger.balanced for ledger in ledgers)
        assert sum(ledger.impressions for ledger in ledgers) == len(self.impressions)
        for kind in COMMANDS:
            if kind == "join" and self.settings.kafka_client == "confluent":
                continue  # it does not tell the generation; the bits above are the proof
            owners = set()
            for log in self.jobs.folder.glob(f"*-{kind}.log"):
                for generation, partitions in set(GENERATION.findall(log.read_text(errors="replace"))):
                    for partition in filter(None, partitions.split(", ")):
                        assert (generation, partition) not in owners, f"two own {partition} in {generation}"
                        owners.add((generation, partition))
            assert len({generation for generation, _ in owners}) > 1

    def close(self) -> None:
        self.jobs.close()
        self.result.close()


@contextmanager
def rolling(settings_for, folder, **load):
    """Make workers under load."""
    with ExitStack() as stack:
        made = Rolling(settings_for, folder, **load)
        stack.callback(made.close)
        yield made


def stop_at_any_time(settings, folder, kind: str, *, times: int, seed: int) -> None:
    """Tell workers to stop at any instant once they have said something, some of them twice: each ends with 0."""
    dice, jobs = Random(seed), Jobs(settings, folder)
    try:
        jobs.start(*COMMANDS[kind])  # another one, so that the group has something to share
        for _ in range(times):
            worker = jobs.start(*COMMANDS[kind])
            wait_until(lambda worker=worker: jobs.logs[worker.pid].stat().st_size > 0, timeout_s=60, every_s=0.01)
            time.sleep(dice.choice([0.0, 0.3, 1.0, 6.0]) * dice.random())
            if dice.random() < 0.5:
                worker.send_signal(signal.SIGTERM)
                time.sleep(dice.choice([0.1, 1.0]) * dice.random())
            code = jobs.terminate(worker, timeout_s=DRAIN_S)
            assert code == 0, f"{code}: {jobs.logs[worker.pid].read_text()}"
    finally:
        jobs.close()
