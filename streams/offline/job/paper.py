"""The paper's experiments as a job: every seed on whichever core is free."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from learner.encoder import Encoder
from learner.experiments.arena import Earned
from learner.experiments.online import Online
from learner.experiments.policies import ALPHAS, BEYOND, BOUNDS, PAPER, Entry
from learner.experiments.summary import best_alphas, rows, verdicts
from learner.experiments.taobao import Taobao, shop_of
from learner.experiments.yandex import Yandex
from streams.offline.encoder_training import train
from streams.offline.experiment_report import Section, write_report
from streams.offline.job.pool import bars, pool
from streams.offline.logs import LogError
from streams.offline.pages import read_pages

SIZES = (3, 4, 5, 6)  # K, as in the paper's table
TUNING_SEED = 1000  # the seeds that α is chosen on are none of those that count


class Experiment(Protocol):
    """What can be played with lists of any size, for any number of rounds, with any seed."""

    def play(self, entries: Sequence[Entry], *, size: int, rounds: int, seed: int) -> Mapping[Entry, Earned]:
        """Return what each entry earned."""

    def checkpoints(self, rounds: int) -> NDArray[np.int64]:
        """Return the rounds at which curves are drawn."""


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """How much is played: each α of the grid on the tuning seeds, then each algorithm's best α on the others."""

    sizes: tuple[int, ...]
    rounds: int
    seeds: int = 10
    tuning_rounds: int = 5000
    tuning_seeds: int = 2
    names: tuple[str, ...] = PAPER + BEYOND


def run_yandex(logs: Path, out: Path, *, rounds: int = 5000, seeds: int = 10, workers: int = 2, top: int = 3) -> None:
    """Play the web search experiment on a log of ``glimpse fit``'s form, and write its report into ``out``."""
    log = read_pages(logs)
    assert log.queries is not None
    if log.positions < max(SIZES):
        raise LogError(f"{log.name} has lists of {log.positions}; this experiment chooses up to {max(SIZES)} of them")
    try:
        experiment = Yandex.from_log(log.items, log.clicks, log.queries, top=top)
    except ValueError as error:
        raise LogError(f"{log.name}: {error}") from error
    plan = ExperimentPlan(sizes=SIZES, rounds=rounds, seeds=seeds, tuning_rounds=rounds, tuning_seeds=5)
    note = (
        f"{log.name}: the {top} most frequent queries with {len(np.unique(experiment.items))} items; "
        f"{len(experiment.share)} contexts (a query with a set of items shown, in place of the paper's users) with "
        f"{experiment.kept:.0%} of their pages."
    )
    with pool(workers) as executor, bars() as progress:
        section = conduct(experiment, plan, "Web search (Yandex sample)", note, executor, progress)
    write_report(out, "Web search recommendation", [section])


def run_taobao(out: Path, *, rounds: int = 90_000, seeds: int = 10, workers: int = 2) -> None:
    """Play the e-commerce experiment on the simulated shop, judged by its log and, half as long, by its users."""
    with pool(workers) as executor, bars() as progress:
        encoder = trained(progress)
        sections = []
        kinds: tuple[tuple[Literal["log", "drawn", "users"], str, int], ...] = (
            ("log", "Simulated Taobao, judged by its log with UBM-IPS as in the paper", rounds),
            ("drawn", "The same, learned from drawn clicks instead of the reweighted reward", rounds),
            ("users", "Simulated Taobao, judged by the simulated users themselves", rounds // 2),
        )
        for judge, title, count in kinds:
            plan = ExperimentPlan(sizes=SIZES, rounds=count, seeds=seeds, tuning_rounds=min(15_000, count))
            note = "The log is simulated from the published facts; Taobao's own is not public."
            experiment = Taobao(encoder, judge)
            sections.append(conduct(experiment, plan, title, note, executor, progress))
    write_report(out, "E-commerce recommendation (simulated)", sections)


def run_online(out: Path, *, rounds: int = 43_200, seeds: int = 10, workers: int = 2) -> None:
    """Play three days of buckets in the simulated shop."""
    names = tuple(
        name for name in PAPER + BEYOND if name != "pbm-ucb"
    )  # as the paper: 40,000 items are too many for it
    plan = ExperimentPlan((12,), rounds, seeds=seeds, tuning_rounds=min(rounds, 14_400), tuning_seeds=1, names=names)
    with pool(workers) as executor, bars() as progress:
        experiment = Online(trained(progress))
        note = f"{rounds:,} visits to each bucket in three days, 12 of 200 candidates a list, learned after 10 min."
        section = conduct(experiment, plan, "Three days of buckets (simulated)", note, executor, progress, by_hour=True)
    write_report(out, "Online experiment (simulated)", [section])


def conduct(
    experiment: Experiment,
    plan: ExperimentPlan,
    title: str,
    note: str,
    executor: Executor | None,
    progress: Progress | None = None,
    *,
    by_hour: bool = False,
) -> Section:
    """Choose every algorithm's α by the same search, play all seeds, and return the table with its verdicts."""
    began, cpu = time.monotonic(), list[float]()
    task = (
        None if progress is None else progress.add_task(title, total=len(plan.sizes) * (plan.tuning_seeds + plan.seeds))
    )

    def played(jobs: dict[tuple[int, int], list[Entry]], rounds: int) -> dict[tuple[int, int], Mapping[Entry, Earned]]:
        done = {}
        for key, (earned, seconds) in _played(experiment, jobs, rounds, executor):
            done[key] = earned
            cpu.append(seconds)
            if progress is not None and task is not None:
                progress.advance(task)
        return done

    grid = [Entry(name, alpha) for name in plan.names for alpha in ALPHAS]
    tuning = [TUNING_SEED + seed for seed in range(plan.tuning_seeds)]
    tried = played({(size, seed): grid for size in plan.sizes for seed in tuning}, plan.tuning_rounds)
    jobs: dict[tuple[int, int], list[Entry]] = {}
    for size in plan.sizes:
        alphas = best_alphas([tried[size, seed] for seed in tuning])
        entries = [Entry(name, alphas[name]) for name in plan.names] + [Entry(name) for name in BOUNDS]
        jobs |= {(size, seed): entries for seed in range(plan.seeds)}
    results = played(jobs, plan.rounds)
    at = experiment.checkpoints(plan.rounds)
    table = [
        row
        for size in plan.sizes
        for row in rows([results[size, seed] for seed in range(plan.seeds)], size=size, at=at)
    ]
    return Section(
        title=title,
        note=note,
        rounds=plan.rounds,
        seeds=plan.seeds,
        tuned_on=(plan.tuning_seeds, plan.tuning_rounds),
        seconds=time.monotonic() - began,
        cpu_seconds=sum(cpu),
        checkpoints=at.tolist(),
        by_hour=by_hour,
        rows=table,
        verdicts=verdicts(table),
    )


Played = tuple[Mapping[Entry, Earned], float]


def _played(
    experiment: Experiment, jobs: dict[tuple[int, int], list[Entry]], rounds: int, executor: Executor | None
) -> Iterator[tuple[tuple[int, int], Played]]:
    """Yield the result of each job (size, seed) as it is done; without an executor here, one after the other."""
    if executor is None:
        for (size, seed), entries in jobs.items():
            yield (size, seed), _play(experiment, entries, size, rounds, seed)
        return
    futures = {
        executor.submit(_play, experiment, entries, size, rounds, seed): (size, seed)
        for (size, seed), entries in jobs.items()
    }
    for future in as_completed(futures):
        yield futures[future], future.result()


def _play(experiment: Experiment, entries: list[Entry], size: int, rounds: int, seed: int) -> Played:
    """Return a job's result and its processor time, which other work on the machine does not lengthen."""
    began = time.process_time()
    return experiment.play(entries, size=size, rounds=rounds, seed=seed), time.process_time() - began


def trained(progress: Progress | None = None) -> Encoder:
    """Return the encoder of the simulated shop."""
    task = None if progress is None else progress.add_task("training the encoder", total=None)
    shop = shop_of(40_000)
    step: Callable[[float], object] | None = None
    if progress is not None and task is not None:
        step = lambda error: progress.update(task, description=f"training the encoder, MSE {error:.5f}")  # noqa: E731
    contexts = shop.contexts(np.random.default_rng(1), 60_000)
    encoder = train(contexts, user_columns=shop.user_map.shape[1], seed=0, on_epoch=step)
    if progress is not None and task is not None:
        progress.update(task, total=1, completed=1)
    return encoder
