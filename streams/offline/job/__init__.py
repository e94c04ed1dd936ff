"""The experiments as people run them: the paper's three, and those that explain it."""

from streams.offline.job.explain import run_coverage, run_day_one, run_gap
from streams.offline.job.paper import ExperimentPlan, conduct, run_online, run_taobao, run_yandex, trained
from streams.offline.job.pool import pool

__all__ = [
    "ExperimentPlan",
    "conduct",
    "pool",
    "run_coverage",
    "run_day_one",
    "run_gap",
    "run_online",
    "run_taobao",
    "run_yandex",
    "trained",
]
