"""Reading what is logged, advising, and metrics for a textfile collector."""

from streams.advise.job.advise import advise, show_advice
from streams.advise.job.metrics import advice_metrics

__all__ = ["advice_metrics", "advise", "show_advice"]
