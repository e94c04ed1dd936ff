"""What is shown of lag: the table, the lines and the exit code."""

import math
from dataclasses import replace
from io import StringIO

import pytest
from exposition import parse, value
from rich.console import Console

from streams.lag.job.exporter import metrics_of
from streams.lag.job.reader import LagError
from streams.lag.job.view import exit_code, fitting, show, view
from streams.lag.report import GroupLag, LagReport, PartitionLag
from streams.lag.verdict import OpenTransaction, Verdict

FINE = PartitionLag(
    topic="clicks",
    partition=0,
    committed=4,
    position=9,
    end=9,
    exact=True,
    lag_s=0.0,
    rate_in=12.5,
    rate_out=12.5,
    catch_up_s=0.0,
    retention_left_s=86_400.0,
    last_commit_ms=1000,
    verdict=Verdict.OK,
    reason="caught up",
)
SLOW = replace(
    FINE, partition=1, lag=700, exact=False, lag_s=42.0, catch_up_s=None, verdict=Verdict.WARN, reason="slow"
)
HELD = replace(FINE, partition=2, transaction=OpenTransaction(35.0, "w-1", 3))


def report(*partitions: PartitionLag, members: int | None = 2, notes=()) -> LagReport:
    return LagReport(1_700_000_000_000, (GroupLag("join", "glimpse-join", members, partitions),), notes)


def printed(found, **options) -> str:
    console = Console(file=StringIO(), width=110)
    console.print(view(found, **options))
    return console.file.getvalue()


def test_a_table_with_the_reasons_below():
    text = printed(report(FINE, SLOW, HELD, members=0, notes=["commit times are hidden"]), max_lag_s=5)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "WARN join clicks[1] slow (1 of 3 partitions); no consumer is running"
    assert "clicks[0] 4 9 9 0 0.0 s 12.5 12.5 - 24.0 h OK" in lines
    assert "clicks[1] 4 9 9 ≈700 42 s 12.5 12.5 never 24.0 h WARN" in lines
    assert "clicks[1] WARN: slow" in lines
    assert "clicks[2] transaction of w-1 open for 35 s: 3 offsets wait for its end" in lines
    assert "join: clicks[1] is 42 s behind, more than 5.0 s" in lines
    assert "commit times are hidden" in lines


def test_an_odd_commit_is_said_in_one_line_even_when_nothing_waits():
    odd = replace(FINE, partition=40, note="its commit carries 'x' and not the join's notes")
    text = printed(report(*(replace(FINE, partition=number) for number in range(40)), odd), rows=4)
    assert text.count("clicks[40] its commit carries 'x' and not the join's notes\n") == 1


def test_without_rates_nobody_knows_when_it_has_caught_up():
    unknown = printed(report(replace(SLOW, rate_in=None)))
    assert " ".join(unknown.splitlines()[2].split()) == "clicks[1] 4 9 9 ≈700 42 s ? 12.5 ? 24.0 h WARN"


LONG = replace(
    SLOW, topic="impressions", partition=63, committed=123_456_789, position=123_466_789, end=123_476_789, lag=10_000
)


@pytest.mark.parametrize("width", [48, 60, 80, 100, 120])
def test_a_narrow_screen_loses_columns_but_never_cuts_a_number(width):
    console = Console(file=StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(view(report(LONG), width=width))
    [row] = [line for line in console.file.getvalue().splitlines() if "≈10000" in line]
    assert "…" not in row
    assert row.split()[0] == "impressions[63]"
    assert row.rstrip().endswith("WARN")
    assert "42 s" in row


def test_a_pipe_gets_every_column_on_one_line_each():
    console = Console(file=StringIO(), width=80)
    show(report(LONG, replace(LONG, partition=64, reason="slow " * 40)), console, as_json=False)
    lines = console.file.getvalue().splitlines()
    assert sum("123456789" in line and line.rstrip().endswith("WARN") for line in lines) == 2
    assert max(map(len, lines)) > 200
    assert not any(line.startswith(" slow") for line in lines)


@pytest.mark.parametrize("height", [12, 24, 60])
def test_what_is_watched_fits_on_the_screen(height):
    console = Console(file=StringIO(), width=80, height=height, force_terminal=True)
    many = report(*(replace(SLOW, partition=number) for number in range(64)))
    lines = console.render_lines(fitting(many, console, 5.0))
    text = "\n".join("".join(part.text for part in line) for line in lines)
    assert len(lines) < height or "64 more" in text
    assert "WARN" in text


def test_many_partitions_show_the_worst():
    text = printed(
        report(*(replace(FINE, partition=number) for number in range(64)), replace(SLOW, partition=64)), rows=4
    )
    assert text.count("clicks[") == 4 + 2  # the rows, the group's line and the reason
    assert "clicks[64]" in text
    assert "and 61 more that are no worse" in text


@pytest.mark.parametrize(
    "found, limit, code",
    [
        (report(FINE), None, 0),
        (report(FINE, SLOW), None, 1),
        (report(replace(SLOW, verdict=Verdict.OK)), None, 0),
        (report(replace(SLOW, verdict=Verdict.OK)), 41.0, 1),
        (report(replace(SLOW, verdict=Verdict.OK)), 43.0, 0),
        (report(replace(FINE, lag_s=None)), 1.0, 0),
    ],
)
def test_exit_codes_are_for_cron(found, limit, code):
    assert exit_code(found, limit) == code


def test_an_error_is_one_line_as_json_too():
    console = Console(file=StringIO(), width=40)
    show(LagError("Kafka at 127.0.0.1:9092 does not answer: a long story of why"), console, as_json=True)
    assert console.file.getvalue() == '{"error": "Kafka at 127.0.0.1:9092 does not answer: a long story of why"}\n'


def test_metrics_leave_out_what_is_not_known():
    text = metrics_of(report(SLOW, replace(HELD, lag_s=None, committed=None), members=None))
    one, two = ({"group": "join", "topic": "clicks", "partition": number} for number in "12")
    assert value(text, "glimpse_lag_seconds", **one) == 42
    assert two not in [sample.labels for sample in parse(text)["glimpse_lag_seconds"].samples]
    assert value(text, "glimpse_lag_catch_up_seconds", **one) == math.inf
    assert value(text, "glimpse_lag_open_transaction_seconds", **two) == 35
    assert value(text, "glimpse_lag_verdict_code", **one) == 1
    assert not parse(text)["glimpse_lag_group_members"].samples
    assert value(text, "glimpse_lag_up") == 1
