"""The page as threads share it: one feeds it, any number of others read it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from streams.dashboard.page import Page
from streams.dashboard.source import LogUpdate
from streams.settings import Settings


class State(Page):
    """A page with a lock, to be held by whoever reads it, and a version that grows with every news."""

    def __init__(
        self,
        settings: Settings,
        *,
        source_name: str,
        consumers: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(settings, source_name=source_name, consumers=consumers, clock=clock)
        self.lock = Lock()
        self.version = 0

    def add(self, update: LogUpdate) -> None:
        """Take in what was added to the log."""
        with self.lock:
            super().add(update)
            self.version += 1

    def fail(self, words: str) -> None:
        """Note that the log cannot be read."""
        with self.lock:
            super().fail(words)
            self.version += 1

    def set_lag(self, report: dict[str, Any] | None, trouble: str = "") -> None:
        """Take a lag report, or the words for why there is none."""
        with self.lock:
            super().set_lag(report, trouble)
            self.version += 1
