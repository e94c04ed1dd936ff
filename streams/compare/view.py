"""A comparison for the terminal, and as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.text import Text

from streams.charts import terminal_table
from streams.compare.comparison import BucketComparison, BucketResult
from streams.compare.words import checks, moment, sentences, verdict

HEADINGS = ("bucket", "users", "lists", "CTR_sum", "its lift", "CTR_set", "its lift")


def comparison_view(comparison: BucketComparison, *, positions: bool = False) -> RenderableType:
    """Return tables and sentences."""
    split = f", split {comparison.split}" if comparison.split else ""
    title = f"{moment(comparison.from_ms)} to {moment(comparison.to_ms)}{split}"
    tables = [terminal_table(HEADINGS, map(cells, comparison.buckets), title=title)]
    if positions:
        tables.append(terminal_table(*by_position(comparison), title="CTR by position"))
    lines = [Text(text) for text in sentences(comparison)]
    told = [Text(text, style="bold red" if alarm else "") for alarm, text in checks(comparison)]
    notes = [Text(text, style="dim") for text in (still_open(comparison), *comparison.notes)]
    return Group(*tables, *lines, *told, *notes)


def cells(one: BucketResult) -> list[str]:
    """Return a bucket's row: its rates, each with the bounds of its lift over the control."""
    row = [one.bucket, f"{one.users:,}", f"{one.lists:,}"]
    for metric, rate in one.rates.items():
        lift = None if one.lifts is None else one.lifts[metric]
        if lift is None:
            bounds = "control"
        elif lift.estimate is None or lift.high is None:
            bounds = "–"
        else:
            bounds = f"{100 * lift.low:+.1f} to {lift.high:+.1%}"
        row += [f"{rate:.4f}", bounds]
    return row


def still_open(comparison: BucketComparison) -> str:
    """Return what may still change: lists that wait for their close, and those that a late click may correct."""
    waiting = "" if comparison.open is None else f"{comparison.open:,} lists are still open; "
    return f"{waiting}{sum(one.correctable for one in comparison.buckets):,} may still be corrected by a late click"


def by_position(comparison: BucketComparison) -> tuple[list[str], list[list[str]]]:
    """Return the click rate at each position as a table."""
    rows = []
    for k in range(max(len(one.by_position) for one in comparison.buckets)):
        known = [one.by_position[k] if k < len(one.by_position) else (0, 0) for one in comparison.buckets]
        rows.append([str(k + 1), *(f"{clicks / shown:.4f}" if shown else "–" for shown, clicks in known)])
    return ["position", *(one.bucket for one in comparison.buckets)], rows


def comparison_json(comparison: BucketComparison) -> str:
    """Return all of it as one line of JSON, the verdicts in words included."""
    found = asdict(comparison)
    for one, filled in zip(comparison.buckets, found["buckets"], strict=True):
        filled["verdict"] = verdict(one, comparison)
    found["checks"] = [{"alarm": alarm, "text": text} for alarm, text in checks(comparison)]
    found["believed"] = comparison.believed
    return json.dumps(found, allow_nan=False)
