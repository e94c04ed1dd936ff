"""A comparison as one HTML page with its pictures inside and no request to anywhere."""

from __future__ import annotations

from html import escape

import numpy as np

from streams.charts import COLOURS, Line, html_table, line_chart, page
from streams.compare.comparison import BucketComparison, BucketResult
from streams.compare.view import HEADINGS, by_position, cells
from streams.compare.words import checks, moment, sentences

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
        sum=line_chart([_line(one, "sum", colour) for one, colour in coloured]),
        set=line_chart([_line(one, "set", colour) for one, colour in coloured]),
        positions=html_table(*by_position(comparison)),
        notes="".join(f"<p>{escape(text)}</p>" for text in comparison.notes),
    )
    return page("Glimpse: who won", body)


def _line(one: BucketResult, metric: str, colour: str) -> Line:
    """Return the paper's curve: the rate so far, over the lists so far; the first few of a mean are noise."""
    lists, rate = np.array(one.curve["lists"]), np.array(one.curve[metric])
    told = lists >= min(100, lists[-1])
    return Line(one.bucket, colour, lists[told].astype(np.int64), rate[told])
