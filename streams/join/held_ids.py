"""Ids that impressions hold which are no list in memory: refused ones, and those before the lists of a restart."""

from __future__ import annotations

from heapq import heappop, heappush

from streams.join.log_part import NEVER


class HeldIds:
    """Ids, each held until the floor of the impressions log has passed a time.

    >>> held = HeldIds()
    >>> held.hold("i", 5)
    >>> held.until("i"), held.until("j") == NEVER
    (5, True)
    >>> held.release(6)
    >>> len(held)
    0
    """

    def __init__(self) -> None:
        self._until: dict[str, int] = {}
        self._order: list[tuple[int, str]] = []  # a heap, with some entries that a later one has outlived
        self._most = 0  # since the memory was last given back

    def __len__(self) -> int:
        return len(self._until)

    def hold(self, name: str, until: int) -> None:
        """Hold an id until then, or longer if it is held longer already."""
        if until > self._until.get(name, NEVER):
            self._until[name] = until
            heappush(self._order, (until, name))
            self._most = max(self._most, len(self._until))

    def until(self, name: str) -> int:
        """Return how long an id is held."""
        return self._until.get(name, NEVER)

    def release(self, floor: int) -> None:
        """Let go of the ids that are held until before ``floor``."""
        while self._order and self._order[0][0] < floor:
            until, name = heappop(self._order)
            if self._until.get(name) == until:
                del self._until[name]
        if len(self._until) < self._most // 4:
            self._until, self._most = dict(self._until), len(self._until)
