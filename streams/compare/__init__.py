"""Who won, and whether it is true: lifts of buckets over a control out of samples."""

from streams.compare.columns import ListSums
from streams.compare.comparison import (
    METRICS,
    BucketComparison,
    BucketResult,
    CompareError,
    choice_of,
    compare,
)
from streams.compare.look import CompareChoice
from streams.compare.losses import LostClicks
from streams.compare.report import report_page
from streams.compare.view import comparison_json, comparison_view
from streams.compare.words import checks, verdict

__all__ = [
    "METRICS",
    "BucketComparison",
    "BucketResult",
    "CompareChoice",
    "CompareError",
    "ListSums",
    "LostClicks",
    "checks",
    "choice_of",
    "compare",
    "comparison_json",
    "comparison_view",
    "report_page",
    "verdict",
]
