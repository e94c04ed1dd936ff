"""glimpse compare: reads samples and lost clicks, once or repeatedly, and shows what follows from them."""

from __future__ import annotations

import sys
import time
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from rich.console import Console
from rich.live import Live

from learner.evaluate import ctr_set, ctr_sum
from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch, Snapshot
from streams.compare.columns import ListSums
from streams.compare.comparison import METRICS, BucketComparison, CompareChoice, ShadowResult, choice_of, compare
from streams.compare.losses import LostClicks
from streams.compare.view import comparison_json, comparison_view, report_page
from streams.events import EventReader
from streams.ledger.job import join_commits
from streams.logs import LogSource, RangeError, SourceAway, replace_file
from streams.logs.job import open_source
from streams.offline import ListChoice, LogError, Logs, judge, read_own_logs, replay
from streams.replay import snapshots_at
from streams.settings import Bucket, Settings

FINE, ALARM, STOP = 0, 1, 3  # exit codes; 2 is for what could not be found out


class SampleFollower:
    """Sums of all that a source holds, whichever kind it is."""

    def __init__(self, source: LogSource, reader: EventReader) -> None:
        self.source = source
        self.sums = ListSums()
        self.losses = LostClicks(self.sums.sample, reader=reader)
        self.notes: dict[str, str] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._unreadable = 0

    def read(self) -> int:
        """Take in what was added since the last time, and return how many records it was."""
        if not self.source.has("samples"):
            raise RangeError(f"{self.source.where()} has no samples, which glimpse join writes")
        return sum(self._read_topic(topic) for topic in ("late-clicks", "dead-letters", "samples"))

    def _read_topic(self, topic: str) -> int:
        if not self.source.has(topic):
            self.notes[topic] = f"{self.source.where()} has no {topic}: clicks lost there are not known"
            return 0
        taken = 0
        for partition in range(self.source.partitions(topic)):
            start, stop = self.source.bounds(topic, partition)
            at = self._next.get((topic, partition))
            if at is None and start and topic == "samples":
                log = f"{topic} {partition} on {self.source.where()}"
                self.notes[log] = f"{log} begins at offset {start}: what was before is not compared"
            for block in self.source.read(topic, partition, max(start, at or 0), stop):
                records = block.records()
                taken += len(records)
                if topic == "late-clicks":
                    self.losses.add_late(records)
                elif topic == "dead-letters":
                    self.losses.add_letters(records, partition)
                else:
                    for record in records:
                        self._add(record.value or b"")
                self._next[topic, partition] = block.next_offset  # should the source go away now, nothing counts twice
        return taken

    def _add(self, value: bytes) -> None:
        try:
            batch: SampleBatch = decode(value, SampleBatch)
        except SchemaError:
            self._unreadable += 1
            self.notes["unreadable"] = f"{self._unreadable} records of samples cannot be read, and are passed over"
            return
        self.sums.add(batch)
        self.losses.add_lists(batch)


def show_comparison(
    address: str,
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
    """Compare what is logged at ``address``, and return 0 if all is well, 1 for an alarm, 3 for a bucket to stop.

    While watching, each look reads only what was added; a bucket to stop ends it, or so many ``rounds``.
    """
    console = console or Console()
    in_place = Live(console=console, auto_refresh=False) if watch and console.is_terminal and not as_json else None
    with closing(open_source(address, settings)) as source, in_place or nullcontext():
        follower = SampleFollower(source, EventReader.of(settings))
        looks = 0
        while True:
            try:
                follower.read()
            except SourceAway as error:
                if not looks:
                    raise
                print(f"{error}; this goes on when it is back", file=sys.stderr, flush=True)
                time.sleep(every_s)
                continue
            comparison = compare(follower.sums, follower.losses, choice_of(settings, choice, follower.sums))
            shadows, more = judged_shadows(source, settings)
            notes = [*comparison.notes, *follower.notes.values(), *more]
            comparison = replace(comparison, notes=notes, open=open_lists(source), shadows=shadows)
            code = ALARM if not comparison.believed else STOP if comparison.stops else FINE
            if report is not None:
                replace_file(report, report_page(comparison).encode())
            if metrics_file is not None:
                replace_file(metrics_file, comparison_metrics(comparison))
            if as_json:
                print(comparison_json(comparison), flush=True)
            elif in_place is not None:
                in_place.update(comparison_view(comparison, positions=positions), refresh=True)
            else:
                console.print(comparison_view(comparison, positions=positions), highlight=False)
            looks += 1
            if not watch or looks == rounds or code == STOP:
                return code
            time.sleep(every_s)


def open_lists(source: LogSource) -> int | None:
    """Return how many lists wait for their close by the join's own ledger; an archive has none."""
    try:
        commits = join_commits(source).values()
    except SourceAway:  # a broker that never had a group has no coordinator; the samples can be compared all the same
        return None
    return sum(commit.ledger.open for commit in commits) if commits else None


def comparison_metrics(comparison: BucketComparison) -> bytes:
    """Return the exposition of rates, lifts, alarms and stops."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"glimpse_compare_{name}", text, labels, registry=registry)

    alarm = gauge("alarm", "1 when a check says that no lift can be believed.", "check")
    alarm.labels("sample_ratio").set(comparison.sample_ratio["alarm"])
    alarm.labels("join_rate").set(comparison.join_rate["alarm"])
    stop = gauge("stop", "1 when a bucket is certainly below the guardrail.", "bucket")
    rate = gauge("ctr", "Clicks a list, or the share of lists with a click.", "bucket", "metric")
    low = gauge("lift_low_ratio", "What the lift over the control is at least.", "bucket", "metric")
    high = gauge("lift_high_ratio", "What the lift over the control is at most.", "bucket", "metric")
    for result in comparison.buckets:
        stop.labels(result.bucket).set(result.bucket in comparison.stops)
        for metric in METRICS:
            rate.labels(result.bucket, metric).set(result.rates[metric])
            lift = result.lifts[metric] if result.lifts else None
            if lift is not None and lift.high is not None:
                low.labels(result.bucket, metric).set(lift.low)
                high.labels(result.bucket, metric).set(lift.high)
    return generate_latest(registry)


def judged_shadows(source: LogSource, settings: Settings) -> tuple[list[ShadowResult], list[str]]:
    """Return each shadow's estimate by its newest snapshot, and why some have none."""
    shadows = {name: bucket for name, bucket in settings.buckets.items() if bucket.host is not None}
    snapshots = (snapshots_at(source, settings.buckets) or {}) if shadows else {}
    notes, results = list[str](), list[ShadowResult]()
    for name, bucket in shadows.items():
        host = settings.buckets[str(bucket.host)]
        if name not in snapshots:
            notes.append(f"shadow {name} has no snapshot there yet")
            continue
        try:
            wanted = ListChoice(buckets=(host.name,), truncated=True, candidates=source.has("impressions"))
            logs, _ = read_own_logs(source, settings, wanted)
            results.append(judge_shadow(logs, snapshots[name], bucket, host))
        except LogError as error:
            notes.append(f"shadow {name} cannot be judged: {error}")
    return results, notes


def judge_shadow(logs: Logs, snapshot: Snapshot, bucket: Bucket, host: Bucket) -> ShadowResult:
    """Return what the shadow's snapshot would have earned from the users of its host.

    Where an item's vector differs between lists, only a log of the candidates can tell, by ubm-linear.
    """
    tables = [
        side.examination for side in (bucket, host) if side.examination is not None and side.examination.ndim == 2
    ]
    policy = replay(logs, snapshot)
    estimator = "ubm-linear" if policy.personal and policy.requests is not None else "ubm-ips"
    rates: dict[str, tuple[float, float, float]] = {}
    try:
        judged = judge(logs, policy, estimator=estimator, examination=next(iter(tables), None))
    except LogError as error:
        notes = [str(error)]
    else:
        rates = {str(estimate.metric): (estimate.value, estimate.low, estimate.high) for estimate in judged.estimates}
        notes = [*judged.warnings, *filter(None, [policy.assumes])]
    own = {"sum": ctr_sum(logs.clicks), "set": ctr_set(logs.clicks)}
    return ShadowResult(
        bucket=bucket.name,
        host=host.name,
        estimator=estimator,
        lists=len(logs),
        rates=rates,
        host_rates=own,
        notes=notes,
    )
