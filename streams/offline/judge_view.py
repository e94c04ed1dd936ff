"""`glimpse evaluate` as people and programs see it; and one model beside the one that serves, on the same lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from learner.evaluate import Estimate, Interval
from schemas.records import Snapshot
from streams.charts import terminal_table
from streams.offline.judge import ESTIMATORS, Judgement, Options, judge, logged
from streams.offline.logs import LogError, Logs
from streams.offline.policy import Draw, read_snapshot, replay
from streams.parameters import name_of
from streams.settings import ExaminationError, read_examination


class EvaluateError(ValueError):
    """Options or files that do not fit together."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to judge, and how."""

    logs: Logs
    policy: Path | Snapshot  # a snapshot file, a directory of them, or a snapshot
    estimators: tuple[str, ...] = ()  # none: ubm-ips, or ubm-linear where no two lists are alike
    bucket: str | None = None
    table: Path | NDArray[np.float64] | None = None
    size: int | None = None
    temperature: float = 0.0
    clip: float | None = None
    normalise: bool = False
    level: float = 0.95
    draws: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What all the asked estimators say."""

    policy: str
    lists: int
    contexts: int
    assumes: str  # what the candidates were taken to be; nothing if the log says so
    logged: dict[str, tuple[float, float, float]]
    verdicts: list[Judgement]
    failed: dict[str, str]


def evaluate_policy(request: EvaluationRequest) -> EvaluationReport:
    """Return what a snapshot's policy would have earned on a log; one estimator alone may fail, of many not all."""
    logs = request.logs
    given = request.policy
    snapshot = given if isinstance(given, Snapshot) else read_snapshot(given, request.bucket)
    try:
        options = Options(
            request.clip, request.normalise, Interval(level=request.level, draws=request.draws, seed=request.seed)
        )
        table = read_examination(request.table) if isinstance(request.table, Path) else request.table
        found = replay(logs, snapshot, Draw(request.size, request.temperature, seed=request.seed))
        verdicts, failed = [], {}
        usual = "ubm-linear" if found.personal and found.requests is not None else "ubm-ips"
        for name in request.estimators or (usual,):
            try:
                verdicts.append(judge(logs, found, estimator=name, examination=table, options=options))
            except LogError as error:
                failed[name] = str(error)
        if not verdicts:
            raise LogError("; ".join(failed.values()))
        return EvaluationReport(
            name_of(snapshot),
            len(logs),
            found.contexts,
            found.assumes,
            logged(found.log, options.interval),
            verdicts,
            failed,
        )
    except ExaminationError as error:
        raise EvaluateError(f"{request.table} {error}") from error
    except LogError:
        raise
    except ValueError as error:  # of an option, said by the learner
        raise EvaluateError(str(error)) from error


def show_evaluation(report: EvaluationReport, console: Console) -> None:
    """Print a report for people."""
    lines = [["the log itself", *(_span(*report.logged[metric]) for metric in ("sum", "set")), f"{report.lists}"]]
    for verdict in report.verdicts:
        first, *_ = verdict.estimates
        cells = {each.metric: _span(each.value, each.low, each.high) for each in verdict.estimates}
        spans = [cells.get(metric, "cannot tell") for metric in ("sum", "set")]
        lines.append([verdict.estimator, *spans, f"{first.effective_lists:.0f}", f"{first.unsupported:.0%}"])
    title = f"{report.policy} on {report.lists} logged lists in {report.contexts} contexts"
    caption = "CTRs are per 100 lists; ESS: so many lists of its own would say as much"
    head = ("estimator", "CTR_sum", "CTR_set", "ESS", "unseen")
    console.print(terminal_table(head, lines, title=title, caption=caption))
    if report.assumes:
        console.print(f"assumed: {report.assumes}", markup=False, highlight=False)
    for source in dict.fromkeys(verdict.estimates[0].propensities for verdict in report.verdicts):
        names = [verdict.estimator for verdict in report.verdicts if verdict.estimates[0].propensities == source]
        console.print(f"propensities of {', '.join(names)}: {source}", markup=False, highlight=False)
    for warning in dict.fromkeys(warning for verdict in report.verdicts for warning in verdict.warnings):
        names = [verdict.estimator for verdict in report.verdicts if warning in verdict.warnings]
        console.print(f"warning, {', '.join(names)}: {warning}", markup=False, highlight=False)
    for name, reason in report.failed.items():
        console.print(f"no estimate: {name}: {reason}", markup=False, highlight=False)


def evaluation_json(report: EvaluationReport) -> str:
    """Return a report as one line for programs."""
    return json.dumps(
        {
            "policy": report.policy,
            "lists": report.lists,
            "contexts": report.contexts,
            "assumes": report.assumes,
            "logged": {
                f"ctr_{metric}": dict(zip(("value", "low", "high"), numbers, strict=True))
                for metric, numbers in report.logged.items()
            },
            "estimates": [
                {"estimator": verdict.estimator, **_numbers(each), "warnings": verdict.warnings}
                for verdict in report.verdicts
                for each in verdict.estimates
            ],
            "failed": report.failed,
        }
    )


def chosen_estimators(estimators: list[str]) -> tuple[str, ...]:
    """Return the estimators that were asked for, all for ``all``."""
    return tuple(ESTIMATORS) if "all" in estimators else tuple(dict.fromkeys(estimators))


def _numbers(estimate: Estimate) -> dict[str, Any]:
    names = ("value", "standard_error", "low", "high", "effective_lists", "largest_weight", "clipped", "unsupported")
    return {
        "metric": f"ctr_{estimate.metric}",
        **{name: getattr(estimate, name) for name in names},
        "level": estimate.interval.level,
        "interval": estimate.interval.name,
        "propensities": estimate.propensities,
    }


def _span(value: float, low: float, high: float) -> str:
    return f"{100 * value:.3g} ({100 * low:.3g}–{100 * high:.3g})"


def what_if(
    logs: Logs, other: Snapshot, live: Snapshot | None, *, examination: NDArray[np.float64] | None
) -> list[str]:
    """Return lines for people: clicks per list of the other model and of the live one, or why they cannot be told.

    Without a table the users' way to browse is learned from the same lists.
    """
    try:
        reports = [
            evaluate_policy(EvaluationRequest(logs, snapshot, table=examination))
            for snapshot in (other, live)
            if snapshot is not None
        ]
    except (LogError, EvaluateError) as error:
        return [f"{other.bucket}: what it would have earned cannot be told: {error}"]
    first = reports[0]
    told = [_clicks(report.verdicts[0].estimates[0]) for report in reports]
    than = f"; {reports[1].policy} {told[1]}" if live is not None else ""
    lines = [
        f"{other.bucket}: would have earned {told[0]} clicks per list by {first.verdicts[0].estimator} on "
        f"{first.lists:,} lists{than}; they earned {first.logged['sum'][0]:.4f}"
    ]
    lines += [f"  assumed: {first.assumes}"] if first.assumes else []
    said = dict.fromkeys(text for report in reports for text in report.verdicts[0].warnings)
    return [*lines, *(f"  warning: {text}" for text in said)]


def _clicks(estimate: Estimate) -> str:
    return f"{estimate.value:.4f} ({estimate.low:.4f} to {estimate.high:.4f})"
