"""Simulated users in, a table and a report of what each bandit earned out: the closed loop in one process."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from streams.demo.crowd import RANDOM, Crowd, Loop, Visit, buckets
from streams.demo.report import write_report
from streams.demo.scores import Score, scores, table_of
from streams.embedded import Embedded
from streams.ledger import Ledger
from streams.ranker import Ranker
from streams.settings import Settings

START_MS = 1_750_000_000_000
TICK_MS = 1000
WAIT_S, LATENESS_S = 20.0, 40.0


def demo_settings(alpha: float) -> Settings:
    """Return the settings of the demo: one bucket per algorithm, and short waits."""
    return Settings(buckets=buckets(alpha), wait_s=WAIT_S, lateness_s=LATENESS_S, publish_every_s=1.0)


def play(loop: Loop, crowd: Crowd, settings: Settings, *, lists: int, view: View) -> list[Visit]:
    """Return what happened when ``lists`` lists were shown, 100 a second of the users' time, and all was learned."""
    rankers = {name: loop.ranker(name, stale_after_s=math.inf) for name in settings.buckets}  # its clock is simulated
    visits: list[Visit] = []
    now_ms = START_MS
    while len(visits) < lists or crowd.waiting:
        number = min(100, lists - len(visits))
        visits += crowd.visits(rankers, from_ms=now_ms, to_ms=now_ms + TICK_MS, number=number)
        now_ms += TICK_MS
        loop.append(crowd.arrived(now_ms), at_ms=now_ms)
        loop.step(now_ms)
        for ranker in rankers.values():
            ranker.refresh()
        view.show(visits)
    loop.step(now_ms + int(1000 * settings.horizon_s) + TICK_MS)  # every list is closed and learned
    loop.step(now_ms + int(1000 * (settings.horizon_s + settings.future_s)) + 2 * TICK_MS)  # no click still waits
    for ranker in rankers.values():
        ranker.refresh()
    return visits


class View:
    """The live view: a progress bar, and the click rates so far."""

    def __init__(self, lists: int, console: Console) -> None:
        columns = (TextColumn("{task.completed:,.0f} of {task.total:,.0f} lists"), BarColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task("", total=lists)
        self._live = Live(self._bar, console=console, refresh_per_second=8, transient=True)
        self._shown = 0

    def show(self, visits: list[Visit]) -> None:
        """Show how far it is, and every 1,000 lists the rates."""
        self._bar.update(self._task, completed=len(visits))
        if len(visits) - self._shown >= 1000:
            self._shown = len(visits)
            self._live.update(Group(table_of(scores(visits)), self._bar))

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def distances(rankers: Mapping[str, Ranker], taste: np.ndarray) -> dict[str, float]:
    """Return ‖θ − θ*‖ of every linear bucket."""
    known = {name: ranker.snapshot.theta_array for name, ranker in rankers.items()}
    return {name: float(np.linalg.norm(theta - taste)) for name, theta in known.items() if len(theta) == len(taste)}


def run(*, lists: int = 30_000, seed: int = 1, alpha: float = 0.3, out: Path = Path("demo")) -> list[Score]:
    """Play the closed loop of every bucket on a directory; print what each earned and write ``out``/report.html."""
    console = Console()
    settings = demo_settings(alpha)
    crowd = Crowd(seed, settings.buckets)
    if (out / "log").exists():
        shutil.rmtree(out / "log")  # an earlier demo's
    console.print(
        f"{lists:,} lists of 10 out of 2,000 candidates, for users in {len(settings.buckets)} buckets; α = {alpha}, "
        f"seed {seed}.\nClicks come late, twice and out of order; every bucket learns only from its own users.\n"
    )
    with Embedded(out / "log", settings) as loop:
        with View(lists, console) as view:
            visits = play(loop, crowd, settings, lists=lists, view=view)
        rankers = {name: loop.ranker(name) for name in settings.buckets}
        linear = distances({name: each for name, each in rankers.items() if name != RANDOM}, crowd.world.users.taste)
        done = [replace(score, distance=linear.get(score.bucket)) for score in scores(visits)]
        thetas = {name: rankers[name].snapshot.theta_array for name in linear}
        ledger = loop.ledgers[0]
    console.print(table_of(done))
    console.print(balance(ledger))
    page = write_report(out / "report.html", visits, done, thetas=thetas, world=crowd.world, seed=seed, alpha=alpha)
    console.print(
        f"\nCurves, the examination table and θ against the truth: {page}\nThe logs themselves: {out / 'log'}"
    )
    return done


def balance(ledger: Ledger) -> str:
    """Return where all events went, in two lines."""
    counts = ledger.counts()
    impressions = ("lists", "open", "duplicates", "too_late", "dead_impressions")
    clicks = ("used", "repeated", "waiting", "late", "dead_clicks")

    def line(name: str, parts: tuple[str, ...]) -> str:
        found = [f"{counts[part]:,} {part.replace('_', ' ')}" for part in parts if counts[part]]
        return f"{counts[name]:,} {name} = {' + '.join(found)}"

    return f"{line('impressions', impressions)}\n{line('clicks', clicks)}"
