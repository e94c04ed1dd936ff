"""The experiments that explain the paper's: an old ranker's log, where weights pay, what intervals hold."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from learner.experiments.coverage import REWARDS, ROWS, Coverage
from learner.experiments.day_one import DayOne, ServedLists, standings
from learner.experiments.day_one_cases import cases
from learner.experiments.day_one_logs import lifts, play
from learner.experiments.gap import Gap, Lifts, worlds
from streams.offline.coverage_report import write_coverage
from streams.offline.day_one_report import DayOneRow, write_day_one
from streams.offline.gap_report import write_gap
from streams.offline.job.pool import played
from streams.offline.pages import numbered_together, read_pages

DRAWS = 20  # bootstrap draws of a public log


def run_day_one(out: Path, *, logs: Sequence[tuple[Path, Path]] = (), seeds: int = 10, workers: int = 2) -> None:
    """Learn from the logs of old rankers, simulated and public ones (to learn from, to judge on), and report."""
    began = time.monotonic()
    pages = {one.name.partition(".")[0]: numbered_together(read_pages(one), read_pages(other)) for one, other in logs}
    known = cases(full=True)
    jobs = [(name, seed) for name in known for seed in range(seeds)]
    asked = [(known[name][1], seed) for name, seed in jobs]
    done = dict(zip(jobs, played(_day_one, asked, workers=workers, title="old rankers' logs"), strict=True))
    rows = [
        DayOneRow(block, name.removeprefix(f"{block}: "), standings([done[name, seed] for seed in range(seeds)]))
        for name, (block, _) in known.items()
    ]
    judged = {name: lifts([play(*both, seed=seed) for seed in range(DRAWS)]) for name, both in pages.items()}
    write_day_one(out, rows, judged, seeds=seeds, seconds=time.monotonic() - began)
    _said(out)


def run_gap(out: Path, *, seeds: int = 10, workers: int = 2, rounds: int = 5000) -> None:
    """Play UBM-LinUCB and the others in worlds of every kind, and report where weighting pays."""
    began = time.monotonic()
    known = worlds(rounds)
    jobs = [(world, seed) for world in known for seed in range(seeds)]
    found = list(played(_gap, jobs, workers=workers, title="worlds"))
    by_world = {world: found[place * seeds : (place + 1) * seeds] for place, world in enumerate(known)}
    write_gap(out, by_world, seeds=seeds, seconds=time.monotonic() - began)
    _said(out)


def run_coverage(out: Path, *, replications: int = 1000, workers: int = 2) -> None:
    """Draw logs of known users again and again, and report how often intervals hold the truth."""
    began = time.monotonic()
    jobs = [(lists, reward, replications) for lists in ROWS for reward in REWARDS]
    found = list(played(_coverage, jobs, workers=workers, title="lists per context and rewards"))
    write_coverage(out, found, replications=replications, seconds=time.monotonic() - began)
    _said(out)


def _day_one(job: tuple[DayOne, int]) -> dict[str, ServedLists]:
    case, seed = job
    return case.play(seed, wrong=True)


def _gap(job: tuple[Gap, int]) -> Lifts:
    world, seed = job
    return world.play(seed)


def _coverage(job: tuple[int, str, int]) -> Coverage:
    lists, reward, replications = job
    return Coverage.measured(lists, reward, replications)


def _said(out: Path) -> None:
    Console().print(f"written: {out / 'report.html'}, the figure as SVG, table.md and results.json")
