"""`glimpse evaluate` as people and programs see it; and one model beside the one that serves, on the same lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from learner.evaluate import Estimate, Interval
from schemas.records import Snapshot
from streams.charts import terminal_table
from streams.offline.judge import ESTIMATORS, Judgement, judge, logged
from streams.offline.logs import LogError, Logs
from streams.offline.policy import read_snapshot, replay
from streams.parameters import name_of
from streams.settings import ExaminationError, read_examination


class EvaluateError(ValueError):
    """Options or files that do not fit together."""


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


def evaluate_policy(
    logs: Logs,
    policy: Path | Snapshot,
    estimators: Sequence[str] = (),
    *,
    bucket: str | None = None,
    examination: Path | NDArray[np.float64] | None = None,
    size: int | None = None,
    temperature: float = 0.0,
    clip: float | None = None,
    normalise: bool = False,
    level: float = 0.95,
    draws: int = 0,
    seed: int = 0,
) -> EvaluationReport:
    """Return what a policy would have earned on a log: a snapshot, a snapshot file or a directory of them.

    The estimators may be ``all``; none means ubm-ips, or ubm-linear where no two lists are alike. An estimator that
    cannot judge this log is reported under ``failed``; if none can, that is an error.
    """
    snapshot = policy if isinstance(policy, Snapshot) else read_snapshot(policy, bucket)
    try:
        interval = Interval(level=level, draws=draws, seed=seed)
        table = read_examination(examination) if isinstance(examination, Path) else examination
        replayed = replay(logs, snapshot, size=size, temperature=temperature, seed=seed)
        usual = "ubm-linear" if replayed.personal and replayed.requests is not None else "ubm-ips"
        asked = tuple(ESTIMATORS) if "all" in estimators else dict.fromkeys(estimators or (usual,))
        judged = partial(judge, logs, replayed, examination=table, clip=clip, normalise=normalise, interval=interval)
        verdicts, failed = [], {}
        for name in asked:
            try:
                verdicts.append(judged(estimator=name))
            except LogError as error:
                failed[name] = str(error)
        if not verdicts:
            raise LogError("; ".join(failed.values()))
    except ExaminationError as error:
        raise EvaluateError(f"{examination} {error}") from error
    except LogError:
        raise
    except ValueError as error:  # of an option, said by the learner
        raise EvaluateError(str(error)) from error
    return EvaluationReport(
        policy=name_of(snapshot),
        lists=len(logs),
        contexts=replayed.contexts,
        assumes=replayed.assumes,
        logged=logged(replayed.log, interval),
        verdicts=verdicts,
        failed=failed,
    )


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
    said = [f"assumed: {report.assumes}"] if report.assumes else []
    sources = {verdict.estimator: [verdict.estimates[0].propensities] for verdict in report.verdicts}
    warnings = {verdict.estimator: verdict.warnings for verdict in report.verdicts}
    said += [
        f"{kind}{', '.join(name for name, each in texts.items() if text in each)}: {text}"
        for kind, texts in (("propensities of ", sources), ("warning, ", warnings))
        for text in dict.fromkeys(text for each in texts.values() for text in each)
    ]
    said += [f"no estimate: {name}: {reason}" for name, reason in report.failed.items()]
    for line in said:
        console.print(line, markup=False, highlight=False)


def evaluation_json(report: EvaluationReport) -> str:
    """Return a report as one line for programs."""
    return json.dumps(
        {
            **{name: getattr(report, name) for name in ("policy", "lists", "contexts", "assumes")},
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
            evaluate_policy(logs, snapshot, examination=examination)
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
