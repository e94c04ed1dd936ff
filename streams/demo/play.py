"""The closed loop, embedded or on Kafka, with a table and a report of what each bandit earned."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from streams.demo.crowd import ORDER, Crowd, Visit, buckets
from streams.demo.live import LiveLoop, live_loop
from streams.demo.report import COMMANDS, BucketScore, first_day, scores, table_of, write_report
from streams.embedded import STANDING
from streams.embedded.job import Embedded
from streams.experiments import day_one_table
from streams.join import Ledger
from streams.settings import Settings

TICK_MS = 1000
# what an embedded run writes
OURS = {"impressions", "clicks", "samples", "dead-letters", "late-clicks", "snapshots", STANDING, ".lock"}


class DemoError(RuntimeError):
    """A demo that would destroy something."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays: how users' time runs, and how long to wait until everything is learned."""

    start_ms: int | None  # None: when it begins
    lists_per_s: int
    wait_s: float
    lateness_s: float
    settle_s: tuple[float, ...]  # after the horizon: until all is learned, until no click waits for a list any more


# In a directory time is simulated, so the same seed gives the same numbers; on Kafka it is the clock's.
EMBEDDED = Stage(start_ms=1_750_000_000_000, lists_per_s=100, wait_s=20.0, lateness_s=40.0, settle_s=(1.0, 302.0))
LIVE = Stage(start_ms=None, lists_per_s=400, wait_s=5.0, lateness_s=10.0, settle_s=(5.0,))


def play(
    loop: Embedded | LiveLoop, crowd: Crowd, stage: Stage, *, lists: int, show: Callable[[list[Visit]], None]
) -> list[Visit]:
    """Return what happened when ``lists`` lists were shown and all was learned."""
    rankers = {name: loop.ranker(name, stale_after_s=math.inf) for name in ORDER}
    visits: list[Visit] = []
    now_ms = int(time.time() * 1000) if stage.start_ms is None else stage.start_ms
    while len(visits) < lists or crowd.coming:
        number = min(stage.lists_per_s, lists - len(visits))
        visits += crowd.visits(rankers, from_ms=now_ms, to_ms=now_ms + TICK_MS, number=number)
        now_ms += TICK_MS
        loop.append(crowd.arrived(now_ms), at_ms=now_ms)
        loop.step(now_ms)
        for ranker in rankers.values():
            ranker.refresh()
        show(visits)
    for later_s in stage.settle_s:
        loop.step(now_ms + int(1000 * (stage.wait_s + stage.lateness_s + later_s)))
    return visits


@contextmanager
def progress_view(lists: int, console: Console) -> Iterator[Callable[[list[Visit]], None]]:
    """Give what shows how far the demo is on the terminal, and every 1,000 lists the click rates so far."""
    columns = (TextColumn("{task.completed:,.0f} of {task.total:,.0f} lists"), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console)
    task = bar.add_task("", total=lists)
    shown = 0
    with Live(bar, console=console, refresh_per_second=8, transient=True) as live:

        def show(visits: list[Visit]) -> None:
            nonlocal shown
            bar.update(task, completed=len(visits))
            if len(visits) - shown >= 1000:
                shown = len(visits)
                live.update(Group(table_of(scores(visits)), bar))

        yield show


def run_demo(
    *, lists: int = 30_000, seed: int = 1, alpha: float = 0.3, out: Path = Path("demo"), kafka: Settings | None = None
) -> list[BucketScore]:
    """Play the closed loop of every bucket, print what each earned and write ``out``/report.html.

    It plays on a directory in this process, or with ``kafka`` on topics of its own there, with real jobs.
    """
    console = Console()
    stage = EMBEDDED if kafka is None else LIVE
    settings = replace(
        kafka or Settings(),
        buckets=buckets(alpha),
        wait_s=stage.wait_s,
        lateness_s=stage.lateness_s,
        publish_every_s=1.0,
    )
    crowd = Crowd(seed)
    with live_loop(settings) if kafka else embedded(out / "log", settings) as loop:  # first, as it may be refused
        logs = first_day(seed)
        console.print(day_one_table(logs))
        console.print(COMMANDS, highlight=False, soft_wrap=True)
        console.print("\nThe closed loop: from here on each bandit learns from the lists that it shows itself.")
        console.print(
            f"{lists:,} lists of 10 out of 2,000 candidates, for users in {len(settings.buckets)} buckets; "
            f"α = {alpha}, seed {seed}.\n"
            "Clicks come late, twice and out of order; every bucket learns only from its own users.\n"
        )
        with progress_view(lists, console) as show:
            visits = play(loop, crowd, stage, lists=lists, show=show)
        taste = crowd.world.users.taste
        learned = {name: loop.ranker(name).snapshot.theta_array for name in settings.buckets}
        thetas = {name: theta for name, theta in learned.items() if len(theta) == len(taste)}  # of linear models
        distances = {name: float(np.linalg.norm(theta - taste)) for name, theta in thetas.items()}
        done = [replace(score, distance=distances.get(score.bucket)) for score in scores(visits)]
        ledgers = loop.ledgers
    console.print(table_of(done))
    console.print(balance(ledgers.values()))
    page = write_report(
        out / "report.html", logs, visits, done, thetas=thetas, world=crowd.world, seed=seed, alpha=alpha
    )
    console.print(f"\nCurves, the examination table and θ against the truth: {page}")
    if kafka is None:
        console.print(f"The logs themselves: {out / 'log'}")
    return done


def embedded(folder: Path, settings: Settings) -> Embedded:
    """Return an embedded runner on an empty folder; an earlier demo's is removed, and nobody else's."""
    if folder.exists():
        strange = sorted({file.name for file in folder.iterdir()} - OURS)
        if strange:
            raise DemoError(f"{folder} holds {strange[0]!r}, which no demo has made; take another --out")
        shutil.rmtree(folder)
    return Embedded(folder, settings)


def balance(ledgers: Iterable[Ledger]) -> str:
    """Return where all events of all partitions went, in two lines."""
    counts = Counter[str]()
    for ledger in ledgers:
        counts.update(ledger.counts())
    impressions = ("lists", "open", "duplicates", "too_late", "dead_impressions")
    clicks = ("used", "repeated", "waiting", "late", "dead_clicks")

    def line(name: str, parts: tuple[str, ...]) -> str:
        counted = [f"{counts[part]:,} {part.replace('_', ' ')}" for part in parts if counts[part]]
        return f"{counts[name]:,} {name} = {' + '.join(counted)}"

    return f"{line('impressions', impressions)}\n{line('clicks', clicks)}"
