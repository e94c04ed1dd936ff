"""Counts of what became of every event: nothing disappears."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Ledger:
    """What became of every event of one partition; two sums must hold, and ``balanced`` says whether they do."""

    impressions: int = 0
    lists: int = 0  # net: a correction takes one back and adds one
    open: int = 0
    duplicates: int = 0
    too_late: int = 0
    dead_impressions: int = 0
    clicks: int = 0
    used: int = 0
    repeated: int = 0
    waiting: int = 0
    late: int = 0
    dead_clicks: int = 0
    corrections: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every event that came in is in exactly one of the other counts."""
        return (
            self.impressions == self.lists + self.open + self.duplicates + self.too_late + self.dead_impressions
            and self.clicks == self.used + self.repeated + self.waiting + self.late + self.dead_clicks
        )

    def counts(self) -> dict[str, int]:
        """Return the counts by name, in a fixed order."""
        return {name: getattr(self, name) for name in self.__slots__}
