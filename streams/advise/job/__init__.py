"""Reading what is logged, advising, and metrics for a textfile collector."""

from streams.advise.job.advise import advice_metrics, advise, show_advice

__all__ = ["advice_metrics", "advise", "show_advice"]
