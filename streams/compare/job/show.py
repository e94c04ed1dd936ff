"""glimpse compare at work: one look or many, shadows too, on a terminal, as JSON, as a page, as metrics."""

from __future__ import annotations

import sys
import time
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from rich.console import Console
from rich.live import Live

from streams.compare.comparison import METRICS, BucketComparison, choice_of, compare
from streams.compare.job.follow import SampleFollower
from streams.compare.look import CompareChoice
from streams.compare.report import report_page
from streams.compare.shadows import ShadowResult, judge_shadow, shadows_of
from streams.compare.view import comparison_json, comparison_view
from streams.ledger.job import join_commits
from streams.logs import LogSource, SourceAway, replace_file
from streams.logs.job import open_source
from streams.offline import ListChoice, LogError, read_own_logs
from streams.replay import snapshots_at
from streams.settings import Settings

FINE, ALARM, STOP = 0, 1, 3  # exit codes; 2 is for what could not be found out


def show_comparison(
    place: str,
    settings: Settings,
    choice: CompareChoice,
    *,
    as_json: bool = False,
    report: Path | None = None,
    metrics_file: Path | None = None,
    positions: bool = False,
    watch: bool = False,
    every_s: float = 60.0,
    rounds: int | None = None,
    console: Console | None = None,
) -> int:
    """Compare what is logged at ``place``, and return 0 if all is well, 1 for an alarm, 3 for a bucket to stop.

    While watching, each look reads only what was added; a bucket to stop ends it, or so many ``rounds``.
    """
    console = console or Console()
    code = FINE
    in_place = Live(console=console, auto_refresh=False) if watch and console.is_terminal and not as_json else None
    with closing(open_source(place, settings)) as source, in_place or nullcontext():
        follower = SampleFollower(source)
        for look in count(1):
            try:
                follower.read()
            except SourceAway as error:
                if look == 1:
                    raise
                print(f"{error}; this goes on when it is back", file=sys.stderr, flush=True)
                time.sleep(every_s)
                continue
            found = compare(follower.sums, follower.losses, choice_of(settings, choice, follower.sums))
            shadows, more = judged_shadows(source, settings)
            notes = [*found.notes, *follower.notes.values(), *more]
            found = replace(found, notes=notes, open=open_lists(source), shadows=shadows)
            code = exit_code(found)
            if report is not None:
                replace_file(report, report_page(found).encode())
            if metrics_file is not None:
                replace_file(metrics_file, comparison_metrics(found))
            if as_json:
                print(comparison_json(found), flush=True)
            elif in_place is not None:
                in_place.update(comparison_view(found, positions=positions), refresh=True)
            else:
                console.print(comparison_view(found, positions=positions), highlight=False)
            if not watch or look == rounds or code == STOP:
                return code
            time.sleep(every_s)
    return code


def open_lists(source: LogSource) -> int | None:
    """Return how many lists wait for their close by the join's own ledger; an archive has none."""
    try:
        commits = join_commits(source).values()
    except SourceAway:  # a broker that never had a group has no coordinator; the samples can be compared all the same
        return None
    return sum(commit.ledger.open for commit in commits) if commits else None


def exit_code(found: BucketComparison) -> int:
    """Return what a comparison means for who runs it by a timer."""
    if not found.believed:
        return ALARM
    return STOP if found.stops else FINE


def comparison_metrics(found: BucketComparison) -> bytes:
    """Return the exposition of rates, lifts, alarms and stops."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"glimpse_compare_{name}", text, labels, registry=registry)

    alarm = gauge("alarm", "1 when a check says that no lift can be believed.", "check")
    alarm.labels("sample_ratio").set(found.sample_ratio["alarm"])
    alarm.labels("join_rate").set(found.join_rate["alarm"])
    stop = gauge("stop", "1 when a bucket is certainly below the guardrail.", "bucket")
    rate = gauge("ctr", "Clicks a list, or the share of lists with a click.", "bucket", "metric")
    low = gauge("lift_low_ratio", "What the lift over the control is at least.", "bucket", "metric")
    high = gauge("lift_high_ratio", "What the lift over the control is at most.", "bucket", "metric")
    for one in found.buckets:
        stop.labels(one.bucket).set(one.bucket in found.stops)
        for metric in METRICS:
            rate.labels(one.bucket, metric).set(one.rates[metric])
            lift = one.lifts[metric] if one.lifts else None
            if lift is not None and lift.high is not None:
                low.labels(one.bucket, metric).set(lift.low)
                high.labels(one.bucket, metric).set(lift.high)
    return generate_latest(registry)


def judged_shadows(source: LogSource, settings: Settings) -> tuple[list[ShadowResult], list[str]]:
    """Return each shadow's estimate by its newest snapshot, and why some have none."""
    shadows, notes, found = shadows_of(settings.buckets), list[str](), list[ShadowResult]()
    if not shadows:
        return found, notes
    snapshots = snapshots_at(source, settings.buckets) or {}
    for name, host in shadows.items():
        if name not in snapshots:
            notes.append(f"shadow {name} has no snapshot there yet")
            continue
        try:
            wanted = ListChoice(buckets=(host,), truncated=True, candidates=source.has("impressions"))
            logs, _ = read_own_logs(source, settings, wanted)
            found.append(judge_shadow(logs, snapshots[name], settings.buckets[name], settings.buckets[host]))
        except LogError as error:
            notes.append(f"shadow {name} cannot be judged: {error}")
    return found, notes
