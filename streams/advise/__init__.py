"""What to change, and why: waits, tables and scales judged by what was logged."""

from streams.advise.advice import Advice, BrowsingAdvice, RoundingAdvice, advice_json, advice_view, lines_of
from streams.advise.browsing import BrowsingWatch, ListColumns
from streams.advise.delays import DelayAdvice, advise_delays
from streams.advise.rounding import RoundingLoss

__all__ = [
    "Advice",
    "BrowsingAdvice",
    "BrowsingWatch",
    "DelayAdvice",
    "ListColumns",
    "RoundingAdvice",
    "RoundingLoss",
    "advice_json",
    "advice_view",
    "advise_delays",
    "lines_of",
]
