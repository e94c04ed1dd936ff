"""Work on click logs: fit a table, evaluate a policy, train an encoder."""

from streams.offline.encoder_training import train_encoder, train_on_pairs
from streams.offline.fit_view import run_fit
from streams.offline.judge import judge
from streams.offline.judge_view import (
    evaluate_policy,
    evaluation_json,
    show_evaluation,
    what_if,
)
from streams.offline.logs import LogError, Logs, read_logs
from streams.offline.own_logs import ListChoice, read_own_logs
from streams.offline.policy import replay

__all__ = [
    "ListChoice",
    "LogError",
    "Logs",
    "evaluate_policy",
    "evaluation_json",
    "judge",
    "read_logs",
    "read_own_logs",
    "replay",
    "run_fit",
    "show_evaluation",
    "train_encoder",
    "train_on_pairs",
    "what_if",
]
