"""Work on click logs: fit a table, evaluate a policy, redo the paper's experiments."""

from streams.offline.day_one_report import DayOneRow, day_one_chart, day_one_grid, day_one_table
from streams.offline.encoder_training import train_on_pairs
from streams.offline.fit_view import run_fit
from streams.offline.judge import judge
from streams.offline.judge_view import (
    EvaluationRequest,
    chosen_estimators,
    evaluate_policy,
    evaluation_json,
    show_evaluation,
    what_if,
)
from streams.offline.logs import LogError, Logs, read_logs
from streams.offline.own_logs import ListChoice, read_own_logs
from streams.offline.policy import replay

__all__ = [
    "DayOneRow",
    "EvaluationRequest",
    "ListChoice",
    "LogError",
    "Logs",
    "chosen_estimators",
    "day_one_chart",
    "day_one_grid",
    "day_one_table",
    "evaluate_policy",
    "evaluation_json",
    "judge",
    "read_logs",
    "read_own_logs",
    "replay",
    "run_fit",
    "show_evaluation",
    "train_on_pairs",
    "what_if",
]
