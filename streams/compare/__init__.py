"""Who won, and whether it is true: lifts of buckets over a control out of samples."""

from streams.compare.columns import ListSums
from streams.compare.comparison import BucketComparison, CompareChoice, CompareError, choice_of, compare
from streams.compare.losses import LostClicks
from streams.compare.view import checks, comparison_json, comparison_view, report_page, verdict

__all__ = [
    "BucketComparison",
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
