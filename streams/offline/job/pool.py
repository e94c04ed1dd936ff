"""Processes that play seeds beside each other, and the bars that tell how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streams.local import one_thread_each

Job = TypeVar("Job")
Result = TypeVar("Result")


@contextmanager
def pool(workers: int) -> Iterator[Executor | None]:
    """Give processes that each keep to one core, or None for a single one: this one."""
    if workers == 1:
        yield None
        return
    with one_thread_each(), ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        yield executor


def played(work: Callable[[Job], Result], jobs: Sequence[Job], *, workers: int, title: str) -> Iterable[Result]:
    """Yield the results in the order of the jobs, with a bar."""
    with pool(workers) as executor, bars() as progress:
        task = progress.add_task(title, total=len(jobs))
        for result in map(work, jobs) if executor is None else executor.map(work, jobs):
            progress.advance(task)
            yield result


def bars() -> Progress:
    """Return the progress bars of an experiment."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))
