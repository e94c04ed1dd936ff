"""Lag as people and machines see it: a table, JSON, and an exit code for cron."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streams.lag.job.reader import LagError, LagReader
from streams.lag.report import GroupLag, LagReport, PartitionLag
from streams.lag.verdict import Verdict, Window, spoken
from streams.settings import Settings

FINE, BEHIND, UNKNOWN = 0, 1, 2  # exit codes
STYLES = {
    Verdict.OK: "green",
    Verdict.WARN: "yellow",
    Verdict.REWIND: "magenta",
    Verdict.STALL: "red",
    Verdict.STOP: "bold red",
}
MISSED_LEAST = ("committed", "at", "end", "in/s", "out/s", "kept for", "catch up")
ENDLESS = 100_000  # columns
HEADS = ("partition", "committed", "at", "end", "lag", "behind", "in/s", "out/s", "catch up", "kept for", "verdict")


def show_lag(
    settings: Settings,
    *,
    groups: Collection[str] = (),
    watch: bool = False,
    as_json: bool = False,
    max_lag_s: float | None = None,
    window: Window | None = None,
    every_s: float = 2.0,
    rounds: int | None = None,
    console: Console | None = None,
) -> int:
    """Show lag once, or again and again in place, and return 0 for fine, 1 for behind, 2 for not known.

    A report as JSON is one line. While watching, a broker that goes away is said and waited for. ``rounds`` ends the
    watching after so many readings.
    """
    console = console or Console()
    code = UNKNOWN
    with LagReader(settings, groups=groups, window=window) as reader:
        if not watch:
            try:
                report = settled(reader)
            except LagError as error:
                if as_json:
                    show(error, console, as_json=True)
                raise
            show(report, console, as_json=as_json, max_lag_s=max_lag_s)
            return exit_code(report, max_lag_s)
        in_place = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
        with in_place or nullcontext(), ended_by(signal.SIGTERM):
            try:
                for found in looks(reader, every_s=every_s, rounds=rounds):
                    code = UNKNOWN if isinstance(found, LagError) else exit_code(found, max_lag_s)
                    if in_place is not None:
                        in_place.update(fitting(found, console, max_lag_s), refresh=True)
                    else:
                        show(found, console, as_json=as_json, max_lag_s=max_lag_s)
            except KeyboardInterrupt:
                pass
            except BrokenPipeError:  # whoever read it has read enough
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - else Python complains again at its end
    return code


@contextmanager
def ended_by(number: signal.Signals) -> Iterator[None]:
    """Take a signal as Ctrl-C, so that the terminal is left as it was found."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def looks(reader: LagReader, *, every_s: float, rounds: int | None = None) -> Iterator[LagReport | LagError]:
    """Yield a report every so often, or why there is none."""
    for done in count(1):
        try:
            yield reader.read()
        except LagError as error:
            yield error
        if done == rounds:
            return
        time.sleep(every_s)


def fitting(found: LagReport | LagError, console: Console, max_lag_s: float | None = None) -> RenderableType:
    """Return a report with as many partitions of each group as fit on the screen."""
    most = 1 if isinstance(found, LagError) else max((len(group.partitions) for group in found.groups), default=0)
    rows = most
    while True:
        shown = view(found, max_lag_s, rows=rows, width=console.width)
        if rows == 0 or len(console.render_lines(shown, pad=False)) < console.height:
            return shown
        rows = rows * 3 // 4


def settled(reader: LagReader) -> LagReport:
    """Return a report that rests on enough of the past; only when commits are hidden must that first be watched."""
    report = reader.read()
    if not reader.settled:
        waits = spoken(reader.window.span_s)
        print(f"commit times are hidden from this user, so the groups are watched for {waits}", file=sys.stderr)
    while not reader.settled:
        time.sleep(reader.window.span_s / reader.window.commits)
        report = reader.read()
    return report


def exit_code(report: LagReport, max_lag_s: float | None = None) -> int:
    """Return 0 when all is well, 1 when a verdict is not OK or something waits for longer than ``max_lag_s``."""
    return BEHIND if report.verdict is not Verdict.OK or late(report, max_lag_s) else FINE


def late(report: LagReport, max_lag_s: float | None) -> list[str]:
    """Return what waits for too long, one line each."""
    if max_lag_s is None:
        return []
    return [
        f"{group.name}: {one.topic}[{one.partition}] is {spoken(one.lag_s)} behind, more than {spoken(max_lag_s)}"
        for group in report.groups
        for one in group.partitions
        if one.lag_s is not None and one.lag_s > max_lag_s
    ]


def show(found: LagReport | LagError, console: Console, *, as_json: bool, max_lag_s: float | None = None) -> None:
    """Print a report, or why there is none."""
    if as_json:
        plain = {"error": str(found)} if isinstance(found, LagError) else found.to_dict()
        console.file.write(json.dumps(plain) + "\n")
        console.file.flush()
    else:
        if not console.is_terminal:
            console.width = ENDLESS  # a file or a pipe gets all of it
        console.print(view(found, max_lag_s, width=console.width), soft_wrap=not console.is_terminal)


def view(
    found: LagReport | LagError, max_lag_s: float | None = None, *, rows: int | None = None, width: int | None = None
) -> RenderableType:
    """Return a report as people read it: each group with its verdict and why, then its partitions.

    Shows ``rows`` of them at most, and so many columns as ``width`` allows.
    """
    if isinstance(found, LagError):
        return Text(f"{found}; trying again", style="red")
    parts: list[RenderableType] = []
    for group in found.groups:
        parts += [heading(group), *partitions(group, rows, width), ""]
    lines = [*late(found, max_lag_s), *found.notes]
    return Group(*parts, *(Text(line, style="yellow") for line in lines), Text(clock(found.at_ms / 1000), style="dim"))


def heading(group: GroupLag) -> Text:
    """Return a group in one line."""
    text = Text.assemble((group.verdict.value, STYLES[group.verdict]), "  ", (group.name, "bold"), f"  {group.reason}")
    if group.members == 0:
        text.append("; no consumer is running", style="dim")
    elif group.members is not None:
        text.append(f"; {group.members} consumer{'s' * (group.members > 1)}", style="dim")
    return text


def partitions(group: GroupLag, rows: int | None = None, width: int | None = None) -> Iterator[RenderableType]:
    """Yield a group's partitions, one line each, the worst if not all; and below why some are not OK."""
    shown = sorted(group.partitions, key=lambda one: (-one.verdict.severity, not one.note, -one.lag))[:rows]
    yield table([cells(one) for one in group.partitions if one in shown], width)
    if len(shown) < len(group.partitions):
        yield Text(f" and {len(group.partitions) - len(shown)} more that are no worse", style="dim")
    for one in shown:
        place = f" {one.topic}[{one.partition}]"
        if one.verdict is not Verdict.OK:
            yield Text.assemble(place, " ", (one.verdict.value, STYLES[one.verdict]), f": {one.reason}")
        if one.note:
            yield Text(f"{place} {one.note}", style="yellow")
        if one.transaction is not None:
            by = f" of {one.transaction.writer}" if one.transaction.writer else ""
            held = f"{one.transaction.offsets} offsets wait for its end"
            yield Text(f"{place} transaction{by} open for {spoken(one.transaction.age_s)}: {held}", style="yellow")


def table(rows: list[list[str | Text]], width: int | None = None) -> Table:
    """Return rows under their heads; where that is too wide, columns go, first those that one misses least."""
    widths = [max(len(head), *(len(row[at]) for row in rows), 0) + 2 for at, head in enumerate(HEADS)]
    left = list(range(len(HEADS)))
    for head in MISSED_LEAST:
        if width is None or sum(widths[at] for at in left) <= width:
            break
        left.remove(HEADS.index(head))
    made = Table(box=None, padding=(0, 1), header_style="dim")
    for at in left:
        justify: Literal["left", "right"] = "left" if HEADS[at] in ("partition", "verdict") else "right"
        made.add_column(HEADS[at], justify=justify, no_wrap=True)
    for row in rows:
        made.add_row(*(row[at] for at in left))
    return made


def cells(one: PartitionLag) -> list[str | Text]:
    """Return a partition as one row."""
    return [
        f"{one.topic}[{one.partition}]",
        "never" if one.committed is None else str(one.committed),
        "-" if one.position is None else str(one.position),
        str(one.end),
        ("" if one.exact else "≈") + str(one.lag),
        "?" if one.lag_s is None else spoken(one.lag_s),
        "?" if one.rate_in is None else f"{one.rate_in:.1f}",
        "?" if one.rate_out is None else f"{one.rate_out:.1f}",
        catching_up(one),
        "-" if one.retention_left_s is None else spoken(max(0.0, one.retention_left_s)),
        Text(one.verdict.value, style=STYLES[one.verdict]),
    ]


def catching_up(one: PartitionLag) -> str:
    """Return in how long nothing waits any more, "never" at these rates, or "?" without rates."""
    if not one.lag:
        return "-"
    if one.catch_up_s is not None:
        return spoken(one.catch_up_s)
    return "?" if one.rate_in is None or one.rate_out is None else "never"


def clock(seconds: float) -> str:
    """Return a time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))
