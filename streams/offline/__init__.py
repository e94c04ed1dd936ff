"""Work on click logs: fit a table, evaluate a policy, redo the paper's experiments."""

from streams.offline.day_one_report import DayOneRow, day_one_chart, day_one_grid, day_one_table
from streams.offline.fit_view import run_fit
from streams.offline.heat_map import svg_map
from streams.offline.judge_view import (
    EvaluationRequest,
    chosen_estimators,
    evaluate_policy,
    evaluation_json,
    show_evaluation,
)

__all__ = [
    "DayOneRow",
    "EvaluationRequest",
    "chosen_estimators",
    "day_one_chart",
    "day_one_grid",
    "day_one_table",
    "evaluate_policy",
    "evaluation_json",
    "run_fit",
    "show_evaluation",
    "svg_map",
]
