"""The line that a learning worker logs each minute: lists, rate, lag, versions."""

import time
from collections.abc import Callable

from streams.learn.job.rounds import Learning
from streams.parameters import Version

NAMED = 8  # buckets in a line


class LearnReport:
    """Says what was learned since it was asked last.

    Parameters
    ----------
    behind
        How many offsets of a partition are not learned yet, at most; None when nobody has told yet.
    """

    def __init__(
        self,
        learning: Learning,
        *,
        behind: Callable[[int], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._learning, self._behind, self._clock = learning, behind, clock
        self._since, self._lists = clock(), self._learned()

    def _learned(self) -> int:
        return sum(counts.lists for counts in list(self._learning.counts.values()))

    def line(self) -> str | None:
        """Return the line, or None of a worker that has no partitions."""
        now, lists = self._clock(), self._learned()
        elapsed_s, more = max(now - self._since, 1e-9), lists - self._lists
        self._since, self._lists = now, lists
        places = dict(self._learning.places)
        if not places:
            return None
        told = {number: self._behind(number) for number in places}
        known = [count for count in told.values() if count is not None]
        lag = f"{sum(known):,} records behind" if len(known) == len(told) else "lag not known yet"
        return f"{more:,} lists in {elapsed_s:.0f} s ({more / elapsed_s:,.1f} a second), {lag}; {self._versions()}"

    def _versions(self) -> str:
        newest: dict[str, Version] = {name: snapshot.version for name, snapshot in self._learning.newest.items()}
        named = [f"{name} {version[0]}.{version[1]}" for name, version in sorted(newest.items())]
        left_out = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        return (", ".join(named[:NAMED]) + left_out or "no snapshot yet") + self._behind_the_head()

    def _behind_the_head(self) -> str:
        """Return who catches up, and how many offsets that will still be."""
        found: dict[str, str] = {}
        for place in list(self._learning.places.values()):
            learner = place.owner.learner
            if learner is None:
                continue
            for name, state in list(learner.behind.items()):
                left = learner.next_offset - state.stamp
                found[name] = f"epoch {state.bucket.epoch} of {name} has {left:,} offsets to go"
        return "; " + ", ".join(found[name] for name in sorted(found)[:NAMED]) if found else ""
