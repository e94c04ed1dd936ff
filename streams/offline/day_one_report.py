"""The report of day one: what each learner makes of an old ranker's log."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from learner.experiments.day_one import LEARNERS, LearnerStanding
from learner.experiments.summary import Mean
from streams.charts import dot_chart, html_table, markdown_table, page, terminal_table
from streams.offline.experiment_report import percent, write_texts

SAYING = "Your log was ordered by your old ranker; here is what each learner makes of it."


@dataclass(frozen=True, slots=True)
class DayOneRow:
    """One old ranker and its log."""

    block: str
    name: str
    standing: Mapping[str, LearnerStanding]


def day_one_grid(
    rows: Sequence[DayOneRow], names: Sequence[str], measure: str = "ctr_sum"
) -> tuple[list[str], list[list[str]]]:
    """Return a table: lifts over C²UCB with their intervals, the cosine with the users' taste in brackets."""
    cells = []
    for row in rows:
        line = [row.name]
        for name in names:
            found = row.standing.get(name)
            mean: Mean | None = None if found is None else getattr(found, measure)
            if found is None or mean is None or mean.value != mean.value:
                line.append("–")
                continue
            near = f" ({found.likeness:.2f})" if found.likeness == found.likeness and measure == "ctr_sum" else ""
            line.append((percent(mean) if name != "c2ucb" else "0") + near)
        cells.append(line)
    return ["old ranker's log", *names], cells


def markdown(rows: Sequence[DayOneRow], names: Sequence[str], measure: str = "ctr_sum") -> str:
    """Return all blocks as Markdown tables."""
    parts = []
    for block in dict.fromkeys(row.block for row in rows):
        head, cells = day_one_grid([row for row in rows if row.block == block], names, measure)
        parts.append(f"**{block}**\n\n{markdown_table(head, cells)}")
    return "\n\n".join(parts)


def day_one_chart(rows: Sequence[DayOneRow], names: Sequence[str]) -> str:
    """Return the lifts of CTR_sum over C²UCB as a picture."""
    return dot_chart({f"{row.block}, {row.name}": {name: row.standing[name].ctr_sum for name in names} for row in rows})


def day_one_table(rows: Sequence[DayOneRow]) -> Table:
    """Return the table for the terminal: who learned it, the lift, and how near to the users' taste."""
    head, lines = ["learned by", *(name for row in rows for name in (row.name, "cos"))], []
    for name in rows[0].standing:
        line = [name]
        for row in rows:
            found = row.standing[name]
            near = f"{found.likeness:.2f}" if found.likeness == found.likeness else "–"
            line += ["baseline" if name == "c2ucb" else percent(found.ctr_sum), near]
        lines.append(line)
    caption = "CTR_sum over C²UCB, 95% intervals over seeds; cos: with the users' true taste"
    return terminal_table(head, lines, title=SAYING, caption=caption)


def write_day_one(
    out: Path, rows: Sequence[DayOneRow], logs: Mapping[str, Mapping[str, Mean]], *, seeds: int, seconds: float
) -> None:
    """Write report.html, table.md and results.json into the folder ``out``."""
    shown = [*LEARNERS, "oracle"]
    wrong = [
        "ubm, w known",
        "ubm, w fitted",
        *(name for name in rows[0].standing if name not in (*shown, "old ranker")),
    ]
    note = (
        f"{seeds} seeds, ± is the half-width of the 95% interval over seeds (Student's t); lifts of CTR_sum over C²UCB "
        f"among the same users. Took {seconds:.0f} s."
    )
    tables = {
        "What each learner earns": markdown(rows, shown),
        "The same, CTR_set": markdown(rows, shown, "ctr_set"),
        "With a table that is wrong": markdown(rows, wrong),
        "As UBM-IPS judges it on a later log of the old ranker": markdown(rows, shown, "judged"),
    }
    head, cells = log_grid(logs)
    if cells:
        tables["On public logs"] = markdown_table(head, cells)
    text = "\n\n".join(f"#### {title}\n\n{table}" for title, table in tables.items())
    plain = {
        "note": note,
        "rows": [asdict(row) for row in rows],
        "logs": {log: {name: asdict(mean) for name, mean in found.items()} for log, found in logs.items()},
    }
    chart = day_one_chart(rows, shown)
    parts = [f"<h1>Day one</h1><p>{html.escape(SAYING)}</p><p>{html.escape(note)}</p>", chart]
    parts.append(html_table(*day_one_grid(rows, shown)))
    if cells:
        parts += ["<h2>On public logs</h2>", html_table(head, cells), dot_chart(logs)]
    write_texts(
        out,
        {
            "table.md": f"{note}\n\n{text}\n",
            "results.json": json.dumps(plain, indent=1) + "\n",
            "report.html": page("Day one", "\n".join(parts)),
            "day-one.svg": chart,
        },
    )


def log_grid(logs: Mapping[str, Mapping[str, Mean]]) -> tuple[list[str], list[list[str]]]:
    """Return the lifts on public logs as a table."""
    names = list(dict.fromkeys(name for found in logs.values() for name in found))
    cells = [
        [log, *("0" if name == "c2ucb" else percent(found[name]) for name in names)] for log, found in logs.items()
    ]
    return ["log", *names], cells
