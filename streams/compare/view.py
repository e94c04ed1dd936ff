"""A comparison in words, for the terminal, as one line of JSON, and as one HTML page with its pictures inside."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from streams.charts import COLOURS, Line, html_table, line_chart, page, terminal_table
from streams.compare.comparison import BucketComparison, BucketResult, ShadowResult

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
HEADINGS = ("bucket", "users", "lists", "CTR_sum", "its lift", "CTR_set", "its lift")
BODY = """<h1>Who won, and is it true</h1>
<p>{span}. Bounds hold at every look together, with users as the unit; the control is {control}.</p>
<section><ul>{verdicts}</ul>{checks}</section>
{table}
<div class="pair">
<section><h2>CTR_sum so far</h2>{sum}</section>
<section><h2>CTR_set so far</h2>{set}</section>
</div>
<h2>CTR by position</h2>{positions}
{notes}"""


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


def cells(result: BucketResult) -> list[str]:
    """Return a bucket's row: its rates, each with the bounds of its lift over the control."""
    row = [result.bucket, f"{result.users:,}", f"{result.lists:,}"]
    for metric, rate in result.rates.items():
        lift = None if result.lifts is None else result.lifts[metric]
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
    return (
        f"{waiting}{sum(result.correctable for result in comparison.buckets):,} may still be corrected by a late click"
    )


def by_position(comparison: BucketComparison) -> tuple[list[str], list[list[str]]]:
    """Return the click rate at each position as a table."""
    rows = []
    for k in range(max(len(result.by_position) for result in comparison.buckets)):
        known = [result.by_position[k] if k < len(result.by_position) else (0, 0) for result in comparison.buckets]
        rows.append([str(k + 1), *(f"{clicks / shown:.4f}" if shown else "–" for shown, clicks in known)])
    return ["position", *(result.bucket for result in comparison.buckets)], rows


def comparison_json(comparison: BucketComparison) -> str:
    """Return all of it as one line of JSON, the verdicts in words included."""
    content = asdict(comparison)
    for result, filled in zip(comparison.buckets, content["buckets"], strict=True):
        filled["verdict"] = verdict(result, comparison)
    content["checks"] = [{"alarm": alarm, "text": text} for alarm, text in checks(comparison)]
    content["believed"] = comparison.believed
    return json.dumps(content, allow_nan=False)


def report_page(comparison: BucketComparison) -> str:
    """Return the page."""
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(comparison.buckets))]
    coloured = list(zip(comparison.buckets, colours, strict=True))
    body = BODY.format(
        span=escape(f"{moment(comparison.from_ms)} to {moment(comparison.to_ms)}"),
        control=escape(comparison.control),
        verdicts="".join(f"<li>{escape(text)}</li>" for text in sentences(comparison)),
        checks="".join(f"<p{' class=alarm' if alarm else ''}>{escape(text)}</p>" for alarm, text in checks(comparison)),
        table=html_table(HEADINGS, map(cells, comparison.buckets), colours=colours),
        sum=line_chart([_line(result, "sum", colour) for result, colour in coloured]),
        set=line_chart([_line(result, "set", colour) for result, colour in coloured]),
        positions=html_table(*by_position(comparison)),
        notes="".join(f"<p>{escape(text)}</p>" for text in comparison.notes),
    )
    return page("Glimpse: who won", body)


def _line(result: BucketResult, metric: str, colour: str) -> Line:
    """Return the paper's curve: the rate so far, over the lists so far; the first few of a mean are noise."""
    lists, rate = np.array(result.curve["lists"]), np.array(result.curve[metric])
    told = lists >= min(100, lists[-1])
    return Line(result.bucket, colour, lists[told].astype(np.int64), rate[told])


def verdict(result: BucketResult, comparison: BucketComparison) -> str:
    """Return what is known of a bucket against the control, in a sentence."""
    if result.lifts is None:
        return f"{result.bucket} is the control"
    lift = result.lifts[comparison.metric]
    against = f"{result.bucket} against {comparison.control}:"
    if lift.estimate is None or lift.high is None:
        return f"{against} too few users and clicks to say anything"
    if not comparison.believed:
        return f"{against} not to be believed, see the alarms"
    if lift.more_s is not None:
        return f"{against} undecided; at this rate about {duration(lift.more_s)} more"
    if lift.decided_since_ms is None:
        return f"{against} undecided; nearly alike, so no end can be foretold"
    near, far = sorted((abs(lift.low), abs(lift.high)))
    where = "ahead of" if lift.low > 0 else "behind"
    return (
        f"{result.bucket} is {where} {comparison.control} by {near:.1%} to {far:.1%}; decided since "
        f"{moment(lift.decided_since_ms)}"
    )


def sentences(comparison: BucketComparison) -> list[str]:
    """Return the verdicts on all buckets but the control, and apart from them what shadows would earn."""
    served = [verdict(result, comparison) for result in comparison.buckets if result.lifts is not None]
    return served + [shadow_text(shadow) for shadow in comparison.shadows]


def shadow_text(shadow: ShadowResult) -> str:
    """Return what is known of a shadow, in a sentence."""
    if not shadow.rates:
        return f"shadow {shadow.bucket} of {shadow.host}: cannot be judged; {'; '.join(shadow.notes)}"
    value, low, high = shadow.rates["sum"]
    earned = shadow.host_rates["sum"]
    is_sure = "more than" if low > earned else "less than" if high < earned else "about as much as"
    return (
        f"shadow {shadow.bucket} of {shadow.host}: would earn a CTR_sum of {value:.4f} ({low:.4f} to {high:.4f}, "
        f"{shadow.estimator} on {shadow.lists:,} lists), {is_sure} its host's {earned:.4f}"
    )


def duration(seconds: float) -> str:
    """Return a time that people can plan with.

    >>> duration(100), duration(4000), duration(3 * 86_400)
    ('2 minutes', '1.1 hours', '3 days')
    """
    for unit, name in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= unit:
            amount = seconds / unit
            text = f"{amount:.0f}" if amount >= 3 else f"{amount:.1f}".removesuffix(".0")
            return f"{text} {name[:-1] if text == '1' else name}"
    minutes = max(1, round(seconds / MINUTE))
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


def moment(at_ms: int) -> str:
    """Return a time as one would say it.

    >>> moment(1_700_000_000_000)
    'Tuesday 2023-11-14 22:13 UTC'
    """
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%A %Y-%m-%d %H:%M} UTC"


def checks(comparison: BucketComparison, *, losses_known: bool = True) -> list[tuple[bool, str]]:
    """Return what the checks say, and whether it is an alarm; who reads no lost clicks says nothing of them."""
    joined = [_join_rate(comparison)] if losses_known else []
    worse = f"is certainly worse than {comparison.control} by more than allowed; set its weight 0"
    return [_sample_ratio(comparison), *joined, *((True, f"GUARDRAIL: {name} {worse}") for name in comparison.stops)]


def _sample_ratio(comparison: BucketComparison) -> tuple[bool, str]:
    check = comparison.sample_ratio
    twice = f"; {check['users_in_two_buckets']:,} users met two buckets" if check["users_in_two_buckets"] else ""
    if not check["tested"]:
        return False, f"sample ratio: not tested, {check['why']}{twice}"
    if not check["alarm"]:
        return False, f"sample ratio: users come as the split means it{twice}"
    shares = ", ".join(f"{name} {check['found'][name]:.2%} of {check['expected'][name]:.2%}" for name in check["found"])
    return True, (
        f"SAMPLE RATIO: the split does not give each bucket its share of users since {moment(check['since_ms'])}: "
        f"{shares}{twice}. No lift can be believed; look for what drops or moves users (unlearn drops them, too)"
    )


def _join_rate(comparison: BucketComparison) -> tuple[bool, str]:
    check = comparison.join_rate
    if not check["alarm"]:
        most = max(check["lost"].values(), default=0.0)
        return False, f"join rate: no bucket loses more clicks than the others (at most {most:.2%})"
    worst = "; ".join(
        f"{name} loses {check['lost'][name]:.2%} of its clicks, the others {check['others'][name]:.2%}, noticed "
        f"{moment(since)}"
        for name, since in check["buckets"].items()
    )
    return True, f"JOIN RATE: {worst}. Its lift is too low by as much; glimpse dead-letters and glimpse advise say why"
