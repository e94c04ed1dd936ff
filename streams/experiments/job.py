"""The experiments as people run them: the paper's three, and those that explain it; each seed on any free core."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from learner.encoder import Encoder
from learner.experiments.arena import Earned
from learner.experiments.coverage import REWARDS, ROWS, Coverage
from learner.experiments.day_one import DayOne, cases, standings
from learner.experiments.day_one_logs import Pages, lifts, play
from learner.experiments.gap import Gap, worlds
from learner.experiments.policies import ALPHAS, BEYOND, BOUNDS, PAPER, Entry
from learner.experiments.summary import best_alphas, rows, verdicts
from learner.experiments.taobao import Online, Taobao, shop_of, visits_by_hour
from learner.experiments.yandex import Yandex
from streams.experiments.day_one_report import DayOneRow, write_day_one
from streams.experiments.explain_report import write_coverage, write_gap
from streams.experiments.paper_report import Section, write_report
from streams.local import one_thread_each
from streams.offline import LogError, Logs, read_logs, train_encoder

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")
Experiment = Yandex | Taobao | Online

SIZES = (3, 4, 5, 6)  # K, as in the paper's table
TUNING_SEED = 1000  # the seeds that α is chosen on are none of those that count
EPOCHS = 30  # of the encoder's training
DRAWS = 20  # bootstrap draws of a public log


@dataclass(frozen=True, slots=True)
class Players:
    """Processes that each keep to one core, or this process alone, with a progress bar for each experiment."""

    executor: Executor | None
    progress: Progress

    def play(
        self, title: str, work: Callable[..., Result], jobs: Mapping[Name, Sequence[tuple[Any, ...]]]
    ) -> dict[Name, list[Result]]:
        """Return the results of ``work`` by name, called with the arguments of each of the name's jobs."""
        every = [job for named in jobs.values() for job in named]
        run = map if self.executor is None else self.executor.map
        tracked = self.progress.track(run(work, *zip(*every, strict=True)), total=len(every), description=title)
        results = iter(list(tracked))
        return {name: list(islice(results, len(named))) for name, named in jobs.items()}


@contextmanager
def pool(workers: int) -> Iterator[Players]:
    """Give that many processes, or this one if it is one."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        if workers == 1:
            yield Players(None, progress)
            return
        with one_thread_each(), ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
            yield Players(executor, progress)


def run_day_one(out: Path, *, logs: Sequence[tuple[Path, Path]] = (), seeds: int = 10, workers: int = 2) -> None:
    """Learn from the logs of old rankers, simulated and public ones (to learn from, to judge on), and report."""
    began = time.monotonic()
    pages = {
        train.name.partition(".")[0]: numbered_together(read_pages(train), read_pages(judged)) for train, judged in logs
    }
    jobs = {row: [(case, seed) for seed in range(seeds)] for row, case in cases().items()}
    with pool(workers) as players:
        played = players.play("old rankers' logs", partial(DayOne.play, wrong=True), jobs)
    table = [DayOneRow(block, name, standings(by_seed)) for (block, name), by_seed in played.items()]
    judged = {name: lifts([play(*both, seed=seed) for seed in range(DRAWS)]) for name, both in pages.items()}
    write_day_one(out, table, judged, seeds=seeds, seconds=time.monotonic() - began)


def run_gap(out: Path, *, seeds: int = 10, workers: int = 2, rounds: int = 5000) -> None:
    """Play UBM-LinUCB and the others in worlds of every kind, and report where weighting pays."""
    began = time.monotonic()
    jobs = {world: [(world, seed) for seed in range(seeds)] for world in worlds(rounds)}
    with pool(workers) as players:
        played = players.play("worlds", Gap.play, jobs)
    write_gap(out, played, seeds=seeds, seconds=time.monotonic() - began)


def run_coverage(out: Path, *, replications: int = 1000, workers: int = 2) -> None:
    """Draw logs of known users again and again, and report how often intervals hold the truth."""
    began = time.monotonic()
    jobs = {"": list(product(ROWS, REWARDS, [replications]))}
    with pool(workers) as players:
        played = players.play("lists per context and rewards", Coverage.measured, jobs)
    write_coverage(out, played[""], replications=replications, seconds=time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """How much is played: each α of the grid on the tuning seeds, then each algorithm's best α on the others."""

    sizes: tuple[int, ...]
    rounds: int
    seeds: int = 10
    tuning_rounds: int = 5000
    tuning_seeds: int = 2
    names: tuple[str, ...] = PAPER + BEYOND


def run_yandex(logs: Path, out: Path, *, rounds: int = 5000, seeds: int = 10, workers: int = 2) -> None:
    """Play the web search experiment on a log of ``glimpse fit``'s form, and write its report into ``out``."""
    log = read_pages(logs)
    assert log.queries is not None
    if log.positions < max(SIZES):
        raise LogError(f"{log.name} has lists of {log.positions}; this experiment chooses up to {max(SIZES)} of them")
    try:
        experiment = Yandex.from_log(log.items, log.clicks, log.queries)
    except ValueError as error:
        raise LogError(f"{log.name}: {error}") from error
    plan = ExperimentPlan(sizes=SIZES, rounds=rounds, seeds=seeds, tuning_rounds=rounds, tuning_seeds=5)
    note = (
        f"{log.name}: the 3 most frequent queries with {len(np.unique(experiment.items))} items; "
        f"{len(experiment.share)} contexts (a query with a set of items shown, in place of the paper's users) with "
        f"{experiment.kept:.0%} of their pages."
    )
    with pool(workers) as players:
        section = conduct(experiment, plan, "Web search (Yandex sample)", note, players)
    write_report(out, "Web search recommendation", [section])


def run_taobao(out: Path, *, rounds: int = 90_000, seeds: int = 10, workers: int = 2) -> None:
    """Play the e-commerce experiment on the simulated shop, judged by its log and, half as long, by its users."""
    kinds: tuple[tuple[Literal["log", "drawn", "users"], str, int], ...] = (
        ("log", "Simulated Taobao, judged by its log with UBM-IPS as in the paper", rounds),
        ("drawn", "The same, learned from drawn clicks instead of the reweighted reward", rounds),
        ("users", "Simulated Taobao, judged by the simulated users themselves", rounds // 2),
    )
    note = "The log is simulated from the published facts; Taobao's own is not public."
    with pool(workers) as players:
        encoder, sections = trained(players), []
        for judge, title, count in kinds:
            plan = ExperimentPlan(sizes=SIZES, rounds=count, seeds=seeds, tuning_rounds=min(15_000, count))
            sections.append(conduct(Taobao(encoder, judge), plan, title, note, players))
    write_report(out, "E-commerce recommendation (simulated)", sections)


def run_online(out: Path, *, rounds: int = 43_200, seeds: int = 10, workers: int = 2) -> None:
    """Play three days of buckets in the simulated shop."""
    # as the paper: 40,000 items are too many for PBM-UCB
    names = tuple(name for name in PAPER + BEYOND if name != "pbm-ucb")
    plan = ExperimentPlan((12,), rounds, seeds=seeds, tuning_rounds=min(rounds, 14_400), tuning_seeds=1, names=names)
    note = f"{rounds:,} visits to each bucket in three days, 12 of 200 candidates a list, learned after 10 min."
    with pool(workers) as players:
        section = conduct(Online(trained(players)), plan, "Three days of buckets (simulated)", note, players)
    write_report(out, "Online experiment (simulated)", [section])


def conduct(experiment: Experiment, plan: ExperimentPlan, title: str, note: str, players: Players) -> Section:
    """Choose every algorithm's α by the same search, play all seeds, and return the table with its verdicts."""
    began = time.monotonic()
    grid = [Entry(name, alpha) for name in plan.names for alpha in ALPHAS]
    tuning = range(TUNING_SEED, TUNING_SEED + plan.tuning_seeds)

    def jobs(entries: list[Entry], size: int, rounds: int, seeds: range) -> list[tuple[object, ...]]:
        return [(experiment, entries, size, rounds, seed) for seed in seeds]

    tried = players.play(
        f"{title}: α", _play, {size: jobs(grid, size, plan.tuning_rounds, tuning) for size in plan.sizes}
    )
    counted = {}
    for size in plan.sizes:
        alphas = best_alphas([earned for earned, _ in tried[size]])
        entries = [Entry(name, alphas[name]) for name in plan.names] + [Entry(name) for name in BOUNDS]
        counted[size] = jobs(entries, size, plan.rounds, range(plan.seeds))
    played = players.play(title, _play, counted)
    by_hour = isinstance(experiment, Online)
    sixtieths = np.unique(np.linspace(plan.rounds / 60, plan.rounds, 60).astype(np.int64))
    at = visits_by_hour(plan.rounds) if by_hour else sixtieths
    table = [row for size in plan.sizes for row in rows([earned for earned, _ in played[size]], size=size, at=at)]
    return Section(
        title=title,
        note=note,
        rounds=plan.rounds,
        seeds=plan.seeds,
        tuned_on=(plan.tuning_seeds, plan.tuning_rounds),
        seconds=time.monotonic() - began,
        cpu_seconds=sum(seconds for size in plan.sizes for _, seconds in tried[size] + played[size]),
        checkpoints=at.tolist(),
        by_hour=by_hour,
        rows=table,
        verdicts=verdicts(table),
    )


def _play(
    experiment: Experiment, entries: list[Entry], size: int, rounds: int, seed: int
) -> tuple[Mapping[Entry, Earned], float]:
    """Return a job's result and its processor time, which other work on the machine does not lengthen."""
    began = time.process_time()
    return experiment.play(entries, size=size, rounds=rounds, seed=seed), time.process_time() - began


def trained(players: Players) -> Encoder:
    """Return the encoder of the simulated shop."""
    shop = shop_of(40_000)
    contexts = shop.contexts(np.random.default_rng(1), 60_000)
    task = players.progress.add_task("training the encoder", total=EPOCHS)

    def step(error: float) -> None:
        players.progress.update(task, advance=1, description=f"training the encoder, MSE {error:.5f}")

    return train_encoder(contexts, user_columns=shop.user_map.shape[1], seed=0, epochs=EPOCHS, on_epoch=step)


def read_pages(path: Path) -> Logs:
    """Return a log whose pages are all equally long and belong to queries."""
    logs = read_logs(path)
    if logs.queries is None:
        raise LogError(f"{logs.name} has no 'query' column; an item of a page means something only with its query")
    if (logs.sizes != logs.positions).any():
        short = int(np.argmin(logs.sizes))
        raise LogError(f"{logs.place(short)} has {logs.sizes[short]} items; all pages must have {logs.positions}")
    return logs


def numbered_together(*logs: Logs) -> list[Pages]:
    """Return the pages of several logs; the same query and item have the same number in all."""
    pairs: dict[tuple[str, object], int] = {}
    queries: dict[str, int] = {}
    pages = []
    for log in logs:
        names = [log.query_ids[number] for number in np.asarray(log.queries).tolist()]
        rows = [
            [pairs.setdefault((name, log.item_ids[item]), len(pairs)) for item in items]
            for name, items in zip(names, log.items.tolist(), strict=True)
        ]
        asked = [queries.setdefault(name, len(queries)) for name in names]
        pages.append(Pages(np.array(rows), log.clicks, np.array(asked)))
    return pages
