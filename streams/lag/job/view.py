"""Lag as people and machines see it: a table, JSON, and an exit code for cron."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import nullcontext
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
STYLES = dict(zip(Verdict, ("green", "yellow", "magenta", "red", "bold red"), strict=True))
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
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the terminal is left as it was
        with in_place or nullcontext():
            try:
                for look in looks(reader, every_s=every_s, rounds=rounds):
                    code = UNKNOWN if isinstance(look, LagError) else exit_code(look, max_lag_s)
                    if in_place is not None:
                        in_place.update(fitting(look, console, max_lag_s), refresh=True)
                    else:
                        show(look, console, as_json=as_json, max_lag_s=max_lag_s)
            except KeyboardInterrupt:
                pass
            except BrokenPipeError:  # whoever read it has read enough
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - else Python complains again at its end
            finally:
                signal.signal(signal.SIGTERM, before)
    return code


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


def fitting(report: LagReport | LagError, console: Console, max_lag_s: float | None = None) -> RenderableType:
    """Return a report with as many partitions of each group as fit on the screen."""
    groups = () if isinstance(report, LagError) else report.groups
    rows = max((len(group.partitions) for group in groups), default=0)
    while True:
        shown = view(report, max_lag_s, rows=rows, width=console.width)
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
        f"{group.name}: {partition.topic}[{partition.partition}] is {spoken(partition.lag_s)} behind, "
        f"more than {spoken(max_lag_s)}"
        for group in report.groups
        for partition in group.partitions
        if partition.lag_s is not None and partition.lag_s > max_lag_s
    ]


def show(report: LagReport | LagError, console: Console, *, as_json: bool, max_lag_s: float | None = None) -> None:
    """Print a report, or why there is none."""
    if as_json:
        plain = {"error": str(report)} if isinstance(report, LagError) else report.to_dict()
        console.file.write(json.dumps(plain) + "\n")
        console.file.flush()
    else:
        if not console.is_terminal:
            console.width = ENDLESS  # a file or a pipe gets all of it
        console.print(view(report, max_lag_s, width=console.width), soft_wrap=not console.is_terminal)


def view(
    report: LagReport | LagError, max_lag_s: float | None = None, *, rows: int | None = None, width: int | None = None
) -> RenderableType:
    """Return a report as people read it: each group with its verdict and why, then its partitions.

    Shows ``rows`` of them at most, and so many columns as ``width`` allows.
    """
    if isinstance(report, LagError):
        return Text(f"{report}; trying again", style="red")
    parts: list[RenderableType] = []
    for group in report.groups:
        parts += [heading(group), *partitions(group, rows, width), ""]
    lines = [*late(report, max_lag_s), *report.notes]
    clock = time.strftime("%H:%M:%S", time.localtime(report.at_ms / 1000))
    return Group(*parts, *(Text(line, style="yellow") for line in lines), Text(clock, style="dim"))


def heading(group: GroupLag) -> Text:
    """Return a group in one line."""
    members = "" if group.members is None else f"; {group.members} consumer{'s' * (group.members > 1)}"
    members = "; no consumer is running" if group.members == 0 else members
    verdict = group.verdict.value, STYLES[group.verdict]
    return Text.assemble(verdict, "  ", (group.name, "bold"), f"  {group.reason}", (members, "dim"))


def partitions(group: GroupLag, rows: int | None = None, width: int | None = None) -> Iterator[RenderableType]:
    """Yield a group's partitions, one line each, the worst if not all; and below why some are not OK."""
    shown = sorted(
        group.partitions, key=lambda partition: (-partition.verdict.severity, not partition.note, -partition.lag)
    )[:rows]
    yield table([cells(partition) for partition in group.partitions if partition in shown], width)
    if len(shown) < len(group.partitions):
        yield Text(f" and {len(group.partitions) - len(shown)} more that are no worse", style="dim")
    for partition in shown:
        label = f" {partition.topic}[{partition.partition}]"
        if partition.verdict is not Verdict.OK:
            yield Text.assemble(
                label, " ", (partition.verdict.value, STYLES[partition.verdict]), f": {partition.reason}"
            )
        if partition.note:
            yield Text(f"{label} {partition.note}", style="yellow")
        if partition.transaction is not None:
            by = f" of {partition.transaction.writer}" if partition.transaction.writer else ""
            held = f"{partition.transaction.offsets} offsets wait for its end"
            yield Text(
                f"{label} transaction{by} open for {spoken(partition.transaction.age_s)}: {held}", style="yellow"
            )


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


def cells(partition: PartitionLag) -> list[str | Text]:
    """Return the row of a partition."""
    return [
        f"{partition.topic}[{partition.partition}]",
        "never" if partition.committed is None else str(partition.committed),
        "-" if partition.position is None else str(partition.position),
        str(partition.end),
        ("" if partition.exact else "≈") + str(partition.lag),
        "?" if partition.lag_s is None else spoken(partition.lag_s),
        *("?" if rate is None else f"{rate:.1f}" for rate in (partition.rate_in, partition.rate_out)),
        catching_up(partition),
        "-" if partition.retention_left_s is None else spoken(max(0.0, partition.retention_left_s)),
        Text(partition.verdict.value, style=STYLES[partition.verdict]),
    ]


def catching_up(partition: PartitionLag) -> str:
    """Return in how long nothing waits any more, "never" at these rates, or "?" without rates."""
    if not partition.lag:
        return "-"
    if partition.catch_up_s is not None:
        return spoken(partition.catch_up_s)
    return "?" if partition.rate_in is None or partition.rate_out is None else "never"
