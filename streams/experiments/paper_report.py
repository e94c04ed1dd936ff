"""The report of the paper's experiments: tables of click rates, the paper's order pair by pair, and curves."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from learner.experiments.policies import BEYOND, BOUNDS, PAPER
from learner.experiments.summary import BASELINE, METRICS, Mean, Metric, PairedTest, Row
from learner.experiments.taobao import by_day
from streams.charts import COLOURS, Line, line_chart, terminal_table
from streams.experiments.report import Figure, Grid, Report

LABELS = {"ctr_sum": "CTR_sum", "ctr_set": "CTR_set"}
COLOUR_OF = dict(zip((*PAPER, *BEYOND), COLOURS[1:], strict=True)) | dict.fromkeys(BOUNDS, COLOURS[0])


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an experiment, with its curves and what it says of the paper's order."""

    title: str
    note: str
    rounds: int
    seeds: int
    tuned_on: tuple[int, int]  # seeds, rounds
    seconds: float  # by the clock
    cpu_seconds: float  # of all processes together
    checkpoints: list[int]
    by_hour: bool
    rows: list[Row]
    verdicts: list[PairedTest]

    @property
    def sizes(self) -> list[int]:
        """The list sizes K that were played."""
        return sorted({row.size for row in self.rows})

    def by_name(self) -> dict[str, list[Row]]:
        """Return the rows of each algorithm, by list size."""
        names = dict.fromkeys(row.name for row in self.rows)
        return {name: [row for row in self.rows if row.name == name] for name in names}


def write_report(out: Path, title: str, sections: Sequence[Section]) -> None:
    """Write everything into the folder ``out`` and show the tables on the terminal."""
    report, console = Report(title), Console()
    for number, section in enumerate(sections, 1):
        report.heading(section.title)
        report.text(section.note)
        report.text(words(section))
        report.table(grid(section))
        report.table(order(section))
        draw = by_hour if section.by_hour else by_size
        pairs = zip(*(draw(section, metric) for metric in METRICS), strict=True)
        report.figures(*((f"{number}-{name}", title, svg) for pair in pairs for name, title, svg in pair))
        console.print(terminal(section))
    results = {"title": title, "sections": [asdict(section) for section in sections]}
    report.write(out, results, {"table.csv": as_csv(sections)})


def words(section: Section) -> str:
    """Return what a reader must know about a section's numbers."""
    seeds, rounds = section.tuned_on
    return (
        f"{section.rounds:,} rounds, {section.seeds} seeds, ± is the half-width of the 95% interval over seeds "
        f"(Student's t). Lifts are over C²UCB among the same users. α: the best of the same seven for everyone, by "
        f"CTR_sum on {seeds} other seed{'s' * (seeds > 1)} with {rounds:,} rounds. Took {section.seconds:.0f} s "
        f"with {os.cpu_count()} cores, {section.cpu_seconds:.0f} s of processor time."
    )


def grid(section: Section) -> Grid:
    """Return the paper's table: a row per algorithm, both click rates per list size, with lift and interval."""
    lines = []
    for name, rows in section.by_name().items():
        line = [name]
        for row in rows:
            for metric in METRICS:
                lift = f" ({row.lift[metric].percent})" if row.lift and name != BASELINE else ""
                line.append(row.ctr[metric].plus_minus() + lift)
        alphas = ["theorem" if row.alpha is None else f"{row.alpha:g}" for row in rows]
        lines.append([*line, "–" if name in ("random", "oracle") else ", ".join(alphas)])
    return ["algorithm", *columns(section), "α by K"], lines


def order(section: Section) -> Grid:
    """Return the paper's order pair by pair, the difference and whether it holds."""
    lines: dict[str, list[str]] = {}
    for verdict in section.verdicts:
        pair = f"{verdict.better} > {verdict.worse}"
        lines.setdefault(pair, [pair]).append(f"{verdict.says} {verdict.difference.plus_minus('+')}")
    return ["the paper says", *columns(section)], list(lines.values())


def columns(section: Section) -> list[str]:
    """Return what the columns of a section's tables are called."""
    return [f"K = {size} {LABELS[metric]}" for size in section.sizes for metric in METRICS]


def terminal(section: Section) -> Table:
    """Return a section's table for the terminal: without the lifts, which do not fit there."""
    head = ["algorithm", *(f"K = {size}\n{metric[4:]}" for size in section.sizes for metric in METRICS)]
    lines = [
        [name, *(f"{row.ctr[metric].value:.3f}" for row in rows for metric in METRICS)]
        for name, rows in section.by_name().items()
    ]
    return terminal_table(head, lines, title=f"{section.title}: CTR_sum and CTR_set")


def as_csv(sections: Sequence[Section]) -> str:
    """Return one line per section, algorithm, list size and metric."""
    text = StringIO()
    lines = csv.writer(text)
    lines.writerow(["section", "algorithm", "K", "alpha", "metric", "mean", "half_95", "lift", "lift_half_95"])
    for section in sections:
        for row in section.rows:
            alpha = "theorem" if row.alpha is None else row.alpha
            for metric in METRICS:
                ctr, lift = row.ctr[metric], row.lift.get(metric, Mean(float("nan"), None))
                numbers = [ctr.value, ctr.half, lift.value, lift.half]
                lines.writerow([section.title, row.name, row.size, alpha, metric, *numbers])
    return text.getvalue()


def by_hour(section: Section, metric: Metric) -> list[Figure]:
    """Return the paper's figures of the online experiment: a click rate by hour and by day."""
    rounds = np.array(section.checkpoints)
    curves = {row.name: np.array(row.curve[metric]) for row in section.rows}
    hours = [line(name, np.arange(1, len(rounds) + 1), curve) for name, curve in curves.items()]
    rates = {name: by_day(rounds, curve) for name, curve in curves.items()}
    days = [line(name, np.arange(1, len(rate) + 1), rate) for name, rate in rates.items()]
    return [
        (f"hours-{metric}", f"{LABELS[metric]} by hour, mean so far", line_chart(hours, along="hours")),
        (f"days-{metric}", f"{LABELS[metric]} of each day", line_chart(days, along="days", start=1)),
    ]


def by_size(section: Section, metric: Metric) -> list[Figure]:
    """Return the paper's figures of the other experiments: a click rate against K and against rounds."""
    sizes, drawn = section.sizes, []
    if len(sizes) > 1:
        lines = []
        for name, rows in section.by_name().items():
            means = [row.ctr[metric] for row in rows]
            halves = np.array([mean.half or 0.0 for mean in means])
            lines.append(line(name, np.array(sizes), np.array([mean.value for mean in means]), halves))
        drawn.append((f"sizes-{metric}", f"{LABELS[metric]} against K", line_chart(lines, along="K", start=sizes[0])))
    for size in sorted({sizes[0], sizes[-1]}):
        curves = {row.name: np.array(row.curve[metric]) for row in section.rows if row.size == size}
        lines = [line(name, np.array(section.checkpoints), curve) for name, curve in curves.items()]
        title = f"{LABELS[metric]} by rounds, mean so far, K = {size}"
        drawn.append((f"rounds-{size}-{metric}", title, line_chart(lines, along="rounds")))
    return drawn


def line(name: str, x: NDArray[np.int64], y: NDArray[np.float64], half: NDArray[np.float64] | float = 0.0) -> Line:
    """Return an algorithm's curve, always in the same colour."""
    return Line(name, COLOUR_OF[name], x, y, half, dashed=name in BOUNDS)
