"""Who won, for the page: the comparison of all buckets, made again as often as it is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from schemas.records import SampleBatch
from streams.compare import (
    BucketComparison,
    CompareChoice,
    CompareError,
    ListSums,
    LostClicks,
    checks,
    choice_of,
    compare,
    verdict,
)
from streams.dashboard.rounding import short
from streams.dashboard.source import WeightedRecord
from streams.settings import Settings

MOST_ROWS = 300_000  # of users and minutes: some tens of megabytes
LEAST_S = 5.0  # between two comparisons
SHARE = 0.02  # of the time that comparing may take


class ComparePanel:
    """Gathers what samples and lost clicks say, and compares now and then."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._sums = ListSums(most_rows=MOST_ROWS)
        self._losses = LostClicks(self._sums.sample)
        self._found: dict[str, Any] = {"rows": [], "checks": [], "notes": ["No list has closed yet."]}
        self._again_at, self._news = 0.0, False

    def add(self, batch: SampleBatch) -> None:
        """Take in a batch of samples."""
        self._sums.add(batch)
        self._losses.add_lists(batch)
        self._news = True

    def add_lost(self, late: Iterable[WeightedRecord], letters: Iterable[WeightedRecord]) -> None:
        """Take in clicks that the join could not use."""
        self._losses.add_late([entry.record for entry in late])
        for entry in letters:
            self._losses.add_letters([entry.record], entry.partition)

    def section(self) -> dict[str, Any]:
        """Return the newest comparison as plain data, made anew if that is due."""
        began = self._clock()
        if self._news and (began >= self._again_at or not self._found["rows"]):
            self._found, self._news = self._compared(), False
            self._again_at = began + max(LEAST_S, (self._clock() - began) / SHARE)
        return self._found

    def _compared(self) -> dict[str, Any]:
        try:
            found = compare(self._sums, self._losses, choice_of(self._settings, CompareChoice(), self._sums))
        except CompareError as error:
            return {"rows": [], "checks": [], "notes": [str(error)]}
        return {
            "control": found.control,
            "from": found.from_ms,
            "to": found.to_ms,
            "rows": rows_of(found),
            "checks": [list(check) for check in checks(found, losses_known=self._losses.clicks > 0)],
            "notes": found.notes,
        }


def rows_of(found: BucketComparison) -> list[list[Any]]:
    """Return bucket, users, lists, rate, bounds of the lift and the verdict of each, best first."""
    rows = []
    for one in found.buckets:
        lift = one.lifts[found.metric] if one.lifts else None
        bounds = [None] * 3 if lift is None or lift.estimate is None else [lift.low, lift.estimate, lift.high]
        rate = short(one.rates[found.metric])
        rows.append([one.bucket, one.users, one.lists, rate, *map(short, bounds), verdict(one, found)])
    return rows
