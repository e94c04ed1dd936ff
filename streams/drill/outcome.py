"""What came of each fault of a drill, as one row of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from streams.drill.faults import Fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fault hit, how long it took until all of that was learned, and how the state then differs from the golden.

    ``pending`` lists had been written and not learned when it struck; ``recovered_s`` counts from the fault's end and
    is None when they were never all learned; ``ended`` workers gave up by themselves and were started again.
    """

    fault: Fault
    hit: str
    pending: int
    recovered_s: float | None
    lists: int
    differences: tuple[str, ...]
    ended: int = 0

    @property
    def good(self) -> bool:
        """Whether work was pending, all of it was learned, and every bit is the golden run's."""
        return self.pending > 0 and self.recovered_s is not None and not self.differences

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.differences:
            return "; ".join(self.differences)
        return "same bits" if self.pending else "struck while nothing was pending"


def table_of(outcomes: Iterable[Outcome]) -> Table:
    """Return the outcomes as a table for the terminal."""
    table = Table("fault", "after", "hit", "lasted", "recovered", "lists so far", "verdict")
    for one in outcomes:
        recovered = "never" if one.recovered_s is None else f"{one.recovered_s:.1f} s"
        ended = f" ({one.ended} workers gave up and were started again)" if one.ended else ""
        table.add_row(
            one.fault.kind,
            f"{one.fault.after_s:.1f} s",
            f"{one.hit}, {one.pending} lists pending",
            f"{one.fault.for_s:.1f} s",
            recovered,
            str(one.lists),
            one.verdict + ended,
        )
    return table
