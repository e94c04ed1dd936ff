"""An experiment's report: JSON, CSV, Markdown, PNG and one HTML page."""

from __future__ import annotations

import base64
import csv
import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from learner.experiments.summary import BASELINE, METRICS, Mean, PairedTest, Row
from streams.charts import html_table, markdown_table, page, terminal_table
from streams.offline.experiment_plots import figures

CTR = {"ctr_sum": "CTR_sum", "ctr_set": "CTR_set"}


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

    def of(self, size: int) -> list[Row]:
        """Return the rows of one list size."""
        return [row for row in self.rows if row.size == size]


def write_report(out: Path, title: str, sections: Sequence[Section]) -> None:
    """Write everything into the folder ``out`` and show the tables on the terminal."""
    parts, console = [f"<h1>{html.escape(title)}</h1>"], Console()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(as_csv(sections))
    for number, section in enumerate(sections, 1):
        parts += [f"<h2>{html.escape(section.title)}</h2>", *(f"<p>{html.escape(line)}" for line in words(section))]
        parts += [html_table(*grid(section)), html_table(*order(section))]
        for name, png in figures(section).items():
            (out / f"{number}-{name}.png").write_bytes(png)
            parts.append(f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(png).decode()}">')
        console.print(terminal(section))
    write_texts(
        out,
        {
            "results.json": json.dumps(as_json(title, sections), indent=1) + "\n",
            "table.md": "\n\n".join(map(markdown, sections)) + "\n",
            "report.html": page(title, "\n".join(parts)),
        },
    )
    console.print(f"written: {out / 'report.html'}, results.json, table.csv, table.md and the curves as PNG")


def write_texts(out: Path, texts: Mapping[str, str]) -> None:
    """Write files of these names into a folder, which is made."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def words(section: Section) -> list[str]:
    """Return what a reader must know about a section's numbers."""
    seeds, rounds = section.tuned_on
    return [
        section.note,
        f"{section.rounds:,} rounds, {section.seeds} seeds, ± is the half-width of the 95% interval over seeds "
        f"(Student's t). Lifts are over C²UCB among the same users. α: the best of the same seven for everyone, by "
        f"CTR_sum on {seeds} other seed{'s' * (seeds > 1)} with {rounds:,} rounds. Took {section.seconds:.0f} s "
        f"with {os.cpu_count()} cores, {section.cpu_seconds:.0f} s of processor time.",
    ]


def grid(section: Section) -> tuple[list[str], list[list[str]]]:
    """Return the paper's table: a row per algorithm, both click rates per list size, with lift and interval."""
    head = ["algorithm"] + [f"K = {size} {CTR[metric]}" for size in section.sizes for metric in METRICS]
    head.append("α by K")
    names = list(dict.fromkeys(row.name for row in section.rows))
    cells = []
    for name in names:
        line, alphas = [name], []
        for size in section.sizes:
            row = next(row for row in section.of(size) if row.name == name)
            for metric in METRICS:
                lift = f" ({percent(row.lift[metric])})" if row.lift and name != BASELINE else ""
                line.append(plus_minus(row.ctr[metric]) + lift)
            alphas.append("theorem" if row.alpha is None else f"{row.alpha:g}")
        fixed = name in ("random", "oracle")
        cells.append([*line, "–" if fixed else ", ".join(alphas)])
    return head, cells


def order(section: Section) -> tuple[list[str], list[list[str]]]:
    """Return the paper's order pair by pair, the difference and whether it holds."""
    head = ["the paper says"] + [f"K = {size} {CTR[metric]}" for size in section.sizes for metric in METRICS]
    pairs = list(dict.fromkeys((verdict.better, verdict.worse) for verdict in section.verdicts))
    cells = []
    for better, worse in pairs:
        found = [each for each in section.verdicts if (each.better, each.worse) == (better, worse)]
        said = [f"{each.says} {each.difference.value:+.4f}{half(each.difference, 4)}" for each in found]
        cells.append([f"{better} > {worse}", *said])
    return head, cells


def markdown(section: Section) -> str:
    """Return a section as Markdown."""
    lines = [f"### {section.title}", "", *(line for text in words(section) for line in (text, ""))]
    for head, cells in (grid(section), order(section)):
        if cells:
            lines += [markdown_table(head, cells), ""]
    return "\n".join(lines).rstrip()


def terminal(section: Section) -> Table:
    """Return a section's table for the terminal: without the lifts, which do not fit there."""
    head = ["algorithm", *(f"K = {size}\n{metric[4:]}" for size in section.sizes for metric in METRICS)]
    lines = []
    for name in dict.fromkeys(row.name for row in section.rows):
        found = [row for size in section.sizes for row in section.of(size) if row.name == name]
        lines.append([name, *(f"{row.ctr[metric].value:.3f}" for row in found for metric in METRICS)])
    return terminal_table(head, lines, title=f"{section.title}: CTR_sum and CTR_set")


def as_json(title: str, sections: Sequence[Section]) -> dict[str, object]:
    """Return everything as plain data."""
    found = []
    for section in sections:
        plain = asdict(section)
        for verdict, one in zip(plain["verdicts"], section.verdicts, strict=True):
            verdict["says"] = one.says
        found.append(plain)
    return {"title": title, "sections": found}


def as_csv(sections: Sequence[Section]) -> list[list[object]]:
    """Return one line per section, algorithm, list size and metric."""
    lines: list[list[object]] = [
        ["section", "algorithm", "K", "alpha", "metric", "mean", "half_95", "lift", "lift_half_95"]
    ]
    for section in sections:
        for row in section.rows:
            for metric in METRICS:
                ctr, lift = row.ctr[metric], row.lift.get(metric, Mean(float("nan"), None))
                alpha = "theorem" if row.alpha is None else row.alpha
                found = [section.title, row.name, row.size, alpha, metric, ctr.value, ctr.half, lift.value, lift.half]
                lines.append(found)
    return lines


def plus_minus(mean: Mean) -> str:
    """Return a mean with its half-width: 0.905 ± 0.002."""
    return f"{mean.value:.4f}{half(mean, 4)}"


def half(mean: Mean, digits: int) -> str:
    """Return the half-width behind a ±, nothing for a single seed."""
    return "" if mean.half is None else f" ± {mean.half:.{digits}f}"


def percent(mean: Mean) -> str:
    """Return a lift in percent with its half-width: +1.2 ± 0.3%."""
    width = "" if mean.half is None else f" ± {100 * mean.half:.1f}"
    return f"{100 * mean.value:+.1f}{width}%"
