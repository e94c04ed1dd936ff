"""What to change, and why: waits, tables and scales judged by what was logged."""

from streams.advise.advice import Advice, BrowsingAdvice, advice_json, advice_view, lines_of
from streams.advise.browsing import ListColumns, changed_at, window_fits
from streams.advise.delays import advise_delays
from streams.advise.rounding import RoundingAdvice, advise_scale

__all__ = [
    "Advice",
    "BrowsingAdvice",
    "ListColumns",
    "RoundingAdvice",
    "advice_json",
    "advice_view",
    "advise_delays",
    "advise_scale",
    "changed_at",
    "lines_of",
    "window_fits",
]
