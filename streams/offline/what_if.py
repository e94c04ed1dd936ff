"""What a model with other parameters would have earned beside the one that serves, on the same lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learner.evaluate import Estimate
from schemas.records import Snapshot
from streams.offline.judge_view import EvaluateError, EvaluationRequest, evaluate_policy
from streams.offline.logs import LogError, Logs


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
