"""A comparison for the terminal, and as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streams.compare.comparison import BucketComparison, BucketResult
from streams.compare.words import checks, moment, sentences, verdict


def comparison_view(comparison: BucketComparison, *, positions: bool = False) -> RenderableType:
    """Return tables and sentences."""
    split = f", split {comparison.split}" if comparison.split else ""
    title = f"{moment(comparison.from_ms)} to {moment(comparison.to_ms)}{split}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("bucket", no_wrap=True)
    for heading in ("users", "lists", "CTR_sum", "its lift", "CTR_set", "its lift"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in comparison.buckets:
        table.add_row(one.bucket, f"{one.users:,}", f"{one.lists:,}", *rate_cells(one))
    lines = [Text(text) for text in sentences(comparison)]
    told = [Text(text, style="bold red" if alarm else "") for alarm, text in checks(comparison)]
    notes = [Text(text, style="dim") for text in (still_open(comparison), *comparison.notes)]
    extra = [position_table(comparison)] if positions else []
    return Group(table, *extra, *lines, *told, *notes)


def rate_cells(one: BucketResult) -> list[str]:
    """Return the rates of a bucket, each with the bounds of its lift over the control, as text."""
    cells = []
    for metric, rate in one.rates.items():
        lift = None if one.lifts is None else one.lifts[metric]
        if lift is None:
            bounds = "control"
        elif lift.estimate is None or lift.high is None:
            bounds = "–"
        else:
            bounds = f"{100 * lift.low:+.1f} to {lift.high:+.1%}"
        cells += [f"{rate:.4f}", bounds]
    return cells


def still_open(comparison: BucketComparison) -> str:
    """Return what may still change: lists that wait for their close, and those that a late click may correct."""
    waiting = "" if comparison.open is None else f"{comparison.open:,} lists are still open; "
    return f"{waiting}{sum(one.correctable for one in comparison.buckets):,} may still be corrected by a late click"


def position_table(comparison: BucketComparison) -> Table:
    """Return the click rate at each position."""
    table = Table(title="CTR by position", title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("position", justify="right")
    for one in comparison.buckets:
        table.add_column(one.bucket, justify="right")
    for k in range(max(len(one.by_position) for one in comparison.buckets)):
        cells = []
        for one in comparison.buckets:
            rows, clicks = one.by_position[k] if k < len(one.by_position) else (0, 0)
            cells.append(f"{clicks / rows:.4f}" if rows else "–")
        table.add_row(str(k + 1), *cells)
    return table


def comparison_json(comparison: BucketComparison) -> str:
    """Return all of it as one line of JSON, the verdicts in words included."""
    found = asdict(comparison)
    for one, filled in zip(comparison.buckets, found["buckets"], strict=True):
        filled["verdict"] = verdict(one, comparison)
    found["checks"] = [{"alarm": alarm, "text": text} for alarm, text in checks(comparison)]
    found["believed"] = comparison.believed
    return json.dumps(found, allow_nan=False)
