"""A comparison as one HTML page with its pictures inside and no request to anywhere."""

from __future__ import annotations

from html import escape

import numpy as np

from streams.compare.comparison import BucketComparison, BucketResult
from streams.compare.line_chart import Line, line_chart
from streams.compare.view import rate_cells
from streams.compare.words import checks, moment, sentences

COLOURS = ("#1a9850", "#3f8fd2", "#e0883a", "#b07aa1", "#c9a400", "#d1495b", "#5b8e7d", "#8a8f98")
HEADINGS = ("bucket", "users", "lists", "CTR_sum", "its lift", "CTR_set", "its lift")
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Glimpse: who won</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2127; --soft: #5d6570; --line: #d9dde3; --back: #fff; --card: #f7f8fa }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e8eb; --soft: #9aa3ae; --line: #343a42; --back: #14171b; --card: #1b1f24 }} }}
* {{ box-sizing: border-box }}
body {{ margin: 0 auto; max-width: 1080px; padding: 2rem 1rem 4rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }}
h1 {{ font-size: 1.6rem; margin: 0 0 .25rem }} h2 {{ font-size: 1.05rem; margin: 0 0 .5rem }}
p {{ color: var(--soft); margin: .25rem 0 1rem; max-width: 75ch }} .alarm {{ color: #d1242f; font-weight: 600 }}
section {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; margin: 1rem 0;
  overflow-x: auto }}
.pair {{ display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)) }}
.pair section {{ margin: 0 }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
th, td {{ text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left }} th {{ color: var(--soft); font-weight: 500 }}
li {{ margin: .3rem 0 }} svg {{ max-width: 100%; height: auto }} svg text {{ font: 12px system-ui, sans-serif }}
</style></head><body>
<h1>Who won, and is it true</h1>
<p>{span}. Bounds hold at every look together, with users as the unit; the control is {control}.</p>
<section><ul>{verdicts}</ul>{checks}</section>
<section><table><tr>{head}</tr>{rows}</table></section>
<div class="pair">
<section><h2>CTR_sum so far</h2>{sum}</section>
<section><h2>CTR_set so far</h2>{set}</section>
</div>
<section><h2>CTR by position</h2><table>{positions}</table></section>
{notes}</body></html>
"""


def report_page(comparison: BucketComparison) -> str:
    """Return the page."""
    colours = {one.bucket: COLOURS[number % len(COLOURS)] for number, one in enumerate(comparison.buckets)}
    return PAGE.format(
        span=escape(f"{moment(comparison.from_ms)} to {moment(comparison.to_ms)}"),
        control=escape(comparison.control),
        verdicts="".join(f"<li>{escape(text)}</li>" for text in sentences(comparison)),
        checks="".join(f"<p{' class=alarm' if alarm else ''}>{escape(text)}</p>" for alarm, text in checks(comparison)),
        head="".join(f"<th>{heading}</th>" for heading in HEADINGS),
        rows="".join(_row(one, colours[one.bucket]) for one in comparison.buckets),
        sum=line_chart([_line(one, "sum", colours[one.bucket]) for one in comparison.buckets]),
        set=line_chart([_line(one, "set", colours[one.bucket]) for one in comparison.buckets]),
        positions=_positions(comparison),
        notes="".join(f"<p>{escape(text)}</p>" for text in comparison.notes),
    )


def _row(one: BucketResult, colour: str) -> str:
    cells = [f"{one.users:,}", f"{one.lists:,}", *rate_cells(one)]
    name = f'<td><b style="color:{colour}">{escape(one.bucket)}</b></td>'
    return f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _line(one: BucketResult, metric: str, colour: str) -> Line:
    """Return the paper's curve: the rate so far, over the lists so far; the first few of a mean are noise."""
    lists, rate = np.array(one.curve["lists"]), np.array(one.curve[metric])
    told = lists >= min(100, lists[-1])
    return Line(one.bucket, colour, lists[told].astype(np.int64), rate[told])


def _positions(comparison: BucketComparison) -> str:
    lines = [f"<tr><th>position</th>{''.join(f'<th>{escape(one.bucket)}</th>' for one in comparison.buckets)}</tr>"]
    for k in range(max(len(one.by_position) for one in comparison.buckets)):
        known = [one.by_position[k] if k < len(one.by_position) else (0, 0) for one in comparison.buckets]
        cells = "".join(f"<td>{clicks / rows:.4f}</td>" if rows else "<td>–</td>" for rows, clicks in known)
        lines.append(f"<tr><td>{k + 1}</td>{cells}</tr>")
    return "".join(lines)
