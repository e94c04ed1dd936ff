"""Kills and a freeze of real workers while there is work, and what must be true after them."""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from exactly_once import BUCKETS, LATENESS_S, WAIT_S, Feed, Learned, events
from jobs import Jobs, wait_until
from joined import commits

from streams.settings import Settings

COMMANDS = {"join": ("join", "--from", "earliest"), "learn": ("learn",)}
FREEZE_S = 13.0  # beyond the session timeout of both jobs
PIECE_S = 0.6


@contextmanager
def two_of_each(
    settings_for, folder: Path, **changes: Any
) -> Iterator[tuple[Settings, Jobs, dict[str, list[Popen[bytes]]]]]:
    """Two join and two learn workers on four partitions."""
    usual = {"buckets": BUCKETS, "wait_s": WAIT_S, "lateness_s": LATENESS_S, "partitions": 4, "publish_every_s": 0.3}
    settings = settings_for(**usual | changes)
    jobs = Jobs(settings, folder)
    try:
        yield settings, jobs, {kind: [jobs.start(*command) for _ in range(2)] for kind, command in COMMANDS.items()}
    finally:
        jobs.close()


def kill_and_freeze(pipeline, *, kills: int, lists: int, load_s: float) -> None:
    """Kill so many of each kind while a join worker is frozen: the bits of the reference, ledgers that balance."""
    settings, jobs, workers = pipeline
    impressions, clicks = events(lists, seed=2)
    result = Learned(settings, impressions, clicks)
    dice = random.Random(3)
    try:
        feed = Feed(settings, impressions, clicks, pieces=int(load_s / PIECE_S), every_s=PIECE_S)
        wait_until(lambda: result.lists() > 0, timeout_s=60, jobs=jobs)
        frozen = workers["join"][0]
        frozen.send_signal(signal.SIGSTOP)  # its partitions go to the other one; on waking it is fenced
        frozen_at, thawed = time.monotonic(), False
        for turn in range(kills):
            for kind, command in COMMANDS.items():
                assert not feed.ended, "kills must fall while work remains"
                if not thawed and time.monotonic() - frozen_at > FREEZE_S:
                    frozen.send_signal(signal.SIGCONT)
                    thawed = True
                victims = [worker for worker in workers[kind] if worker is not frozen or thawed]
                victim = dice.choice(victims)
                jobs.kill(victim)
                workers[kind].remove(victim)
                time.sleep(dice.uniform(0.1, 2.5))
                workers[kind].append(jobs.start(*command))
                time.sleep(1.0 + 0.2 * turn)
        if not thawed:
            time.sleep(max(0.0, FREEZE_S - (time.monotonic() - frozen_at)))
            frozen.send_signal(signal.SIGCONT)
        feed.finish()
        wait_until(lambda: feed.ended, timeout_s=120, jobs=jobs)
        wait_until(result.complete, timeout_s=120, jobs=jobs)
        time.sleep(2)
        assert result.complete(), result.differences()
        ledgers = [commit.ledger for commit in commits(settings)]
        assert all(ledger.balanced for ledger in ledgers)
        assert sum(ledger.impressions for ledger in ledgers) == len(impressions)
        assert sum(ledger.clicks for ledger in ledgers) == len(clicks)
    finally:
        result.close()


def kill_quickly(pipeline, *, quick: int, slow: int, lists: int, load_s: float) -> None:
    """Kill workers before they have come to anything, from the first start on, then some that have.

    All is learned, and the bits are those of the reference, within 60 s of the last kill or of the end of the load.
    """
    settings, jobs, workers = pipeline
    impressions, clicks = events(lists, seed=6)
    result = Learned(settings, impressions, clicks)
    dice = random.Random(7)
    try:
        feed = Feed(settings, impressions, clicks, pieces=int(load_s / PIECE_S), every_s=PIECE_S)
        for pause_s in [dice.uniform(0.1, 1.0) for _ in range(quick)] + [dice.uniform(2.0, 4.0) for _ in range(slow)]:
            time.sleep(pause_s)
            assert not feed.ended, "kills must fall while work remains"
            kind = dice.choice([*COMMANDS])
            victim = dice.choice(workers[kind])
            jobs.kill(victim)
            workers[kind].remove(victim)
            workers[kind].append(jobs.start(*COMMANDS[kind]))
        feed.finish()
        wait_until(lambda: feed.ended, timeout_s=120, jobs=jobs)
        wait_until(result.complete, timeout_s=60, jobs=jobs)
        assert all(commit.ledger.balanced for commit in commits(settings))
    finally:
        result.close()
