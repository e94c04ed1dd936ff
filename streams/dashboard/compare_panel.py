"""Who won, for the page: the comparison of all buckets, made again as often as it is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from schemas.records import SampleBatch
from streams.compare import CompareChoice, CompareError, ListSums, LostClicks, checks, choice_of, compare, verdict
from streams.dashboard.rounding import short
from streams.dashboard.source import WeightedRecord
from streams.events import EventReader
from streams.settings import Settings

MOST_ROWS = 300_000  # of users and minutes: some tens of megabytes
LEAST_S = 5.0  # between two comparisons
SHARE = 0.02  # of the time that comparing may take


class ComparePanel:
    """Gathers what samples and lost clicks say, and compares now and then."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._sums = ListSums(most_rows=MOST_ROWS)
        self._losses = LostClicks(self._sums.sample, reader=EventReader.of(settings))
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
            comparison = compare(self._sums, self._losses, choice_of(self._settings, CompareChoice(), self._sums))
        except CompareError as error:
            return {"rows": [], "checks": [], "notes": [str(error)]}
        rows = []  # bucket, users, lists, rate, bounds of the lift and the verdict, best first
        for result in comparison.buckets:
            lift = result.lifts[comparison.metric] if result.lifts else None
            bounds = [None] * 3 if lift is None or lift.estimate is None else [lift.low, lift.estimate, lift.high]
            numbers = map(short, (result.rates[comparison.metric], *bounds))
            rows.append([result.bucket, result.users, result.lists, *numbers, verdict(result, comparison)])
        return {
            "control": comparison.control,
            "from": comparison.from_ms,
            "to": comparison.to_ms,
            "rows": rows,
            "checks": [list(check) for check in checks(comparison, losses_known=self._losses.clicks > 0)],
            "notes": comparison.notes,
        }
