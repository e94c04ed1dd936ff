"""The report of measured intervals: which of them to trust."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from learner.experiments.coverage import DRAWS, LISTS, SLOW, SPARSE, Coverage, Measured
from streams.charts import html_table, markdown_table, page
from streams.offline.experiment_report import write_texts


def write_coverage(out: Path, found: Sequence[Coverage], *, replications: int, seconds: float) -> None:
    """Write report.html, table.md and results.json into the folder ``out``."""
    note = (
        f"{replications} logs of {LISTS} lists each (with {SPARSE} lists per context or fewer one in {SLOW} of them "
        f"for the bootstrap of {DRAWS} and for known chances), UBM users, 95% intervals. In a cell: bias in % ± its "
        f"standard error, how many intervals held the truth, and ⚠ if the estimates warned; if only some of them did, "
        f"their share and how many of the others held the truth. Took {seconds:.0f} s."
    )
    head, cells = grid(found)
    write_texts(
        out,
        {
            "table.md": f"{note}\n\n{markdown_table(head, cells)}\n",
            "results.json": json.dumps([asdict(each) for each in found], indent=1) + "\n",
            "report.html": page("Coverage", f"<h1>Coverage</h1><p>{note}</p>{html_table(head, cells)}"),
        },
    )


def grid(found: Sequence[Coverage]) -> tuple[list[str], list[list[str]]]:
    """Return a row for each number of lists per context and each reward."""
    names = list(found[0].found)
    cells = []
    for each in found:
        line = [f"{each.lists}", each.reward]
        for name in names:
            one = each.found[name]
            line.append(f"{100 * one.bias:+.1f} ± {100 * one.bias_error:.1f}, {one.covered:.3f}{warned(one)}")
        cells.append(line)
    return ["lists per context", "a click is worth", *names], cells


def warned(found: Measured) -> str:
    """Return the mark of estimates that say by themselves that their interval is not to be trusted."""
    if (share := round(found.warned, 2)) in (0.0, 1.0):
        return " ⚠" if share else ""
    return f" ⚠ {found.warned:.0%}, else {found.trusted:.3f}"
