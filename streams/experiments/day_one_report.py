"""The report of day one: what each learner makes of an old ranker's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from learner.experiments.day_one import LEARNERS, LearnerStanding
from learner.experiments.summary import BASELINE, Mean
from streams.charts import dot_chart, terminal_table
from streams.experiments.report import Grid, Report

SAYING = "Your log was ordered by your old ranker; here is what each learner makes of it."
SHOWN = (*LEARNERS, "oracle")


@dataclass(frozen=True, slots=True)
class DayOneRow:
    """One old ranker and its log."""

    block: str
    name: str
    standing: Mapping[str, LearnerStanding]


def day_one_grid(rows: Sequence[DayOneRow], names: Sequence[str] = SHOWN, measure: str = "ctr_sum") -> Grid:
    """Return a table: lifts over C²UCB with their intervals, the cosine with the users' taste in brackets."""

    def cell(name: str, standing: LearnerStanding | None) -> str:
        lift: Mean | None = getattr(standing, measure, None)
        if standing is None or lift is None or lift.value != lift.value:
            return "–"
        near = f" ({standing.likeness:.2f})" if standing.likeness == standing.likeness and measure == "ctr_sum" else ""
        return ("0" if name == BASELINE else lift.percent) + near

    lines = [[row.name, *(cell(name, row.standing.get(name)) for name in names)] for row in rows]
    return ["old ranker's log", *names], lines


def day_one_chart(rows: Sequence[DayOneRow]) -> str:
    """Return the lifts of CTR_sum over C²UCB as a picture."""
    return dot_chart({f"{row.block}, {row.name}": {name: row.standing[name].ctr_sum for name in SHOWN} for row in rows})


def day_one_table(rows: Sequence[DayOneRow]) -> Table:
    """Return the table for the terminal: who learned it, the lift, and how near to the users' taste."""
    head, lines = ["learned by", *(name for row in rows for name in (row.name, "cos"))], []
    for name in rows[0].standing:
        line = [name]
        for row in rows:
            standing = row.standing[name]
            near = f"{standing.likeness:.2f}" if standing.likeness == standing.likeness else "–"
            line += ["baseline" if name == BASELINE else standing.ctr_sum.percent, near]
        lines.append(line)
    caption = "CTR_sum over C²UCB, 95% intervals over seeds; cos: with the users' true taste"
    return terminal_table(head, lines, title=SAYING, caption=caption)


def write_day_one(
    out: Path, rows: Sequence[DayOneRow], logs: Mapping[str, Mapping[str, Mean]], *, seeds: int, seconds: float
) -> None:
    """Write report.html, day-one.svg, table.md and results.json into the folder ``out``."""
    note = (
        f"{seeds} seeds, ± is the half-width of the 95% interval over seeds (Student's t); lifts of CTR_sum over C²UCB "
        f"among the same users. Took {seconds:.0f} s."
    )
    others = [name for name in rows[0].standing if name not in (*SHOWN, "old ranker")]
    tables = {
        "What each learner earns": (SHOWN, "ctr_sum"),
        "The same, CTR_set": (SHOWN, "ctr_set"),
        "With a table that is wrong": (("ubm, w known", "ubm, w fitted", *others), "ctr_sum"),
        "As UBM-IPS judges it on a later log of the old ranker": (SHOWN, "judged"),
    }
    report = Report("Day one")
    report.text(SAYING)
    report.text(note)
    report.figures(("day-one", "Lifts of CTR_sum over C²UCB", day_one_chart(rows)))
    for title, (names, measure) in tables.items():
        report.heading(title)
        for block in dict.fromkeys(row.block for row in rows):
            report.table(day_one_grid([row for row in rows if row.block == block], names, measure), block)
    if logs:
        report.heading("On public logs")
        learners = list(dict.fromkeys(name for lifts in logs.values() for name in lifts))
        lines = [
            [log, *("0" if name == BASELINE else lifts[name].percent for name in learners)]
            for log, lifts in logs.items()
        ]
        report.table((["log", *learners], lines))
        report.figures(("public-logs", "Lifts of CTR_sum over C²UCB on public logs", dot_chart(logs)))
    plain = {log: {name: asdict(lift) for name, lift in lifts.items()} for log, lifts in logs.items()}
    report.write(out, {"note": note, "rows": [asdict(row) for row in rows], "logs": plain})
