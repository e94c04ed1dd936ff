"""What a job writes to its log: its own words, and little of what the libraries say while a broker is away."""

from __future__ import annotations

import logging

QUIET_S = 30.0


def log_of_job() -> None:
    """Write the log of a job to standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("streams").setLevel(logging.INFO)
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)  # takes every large batch for a blocked loop
    for handler in logging.getLogger().handlers:
        handler.addFilter(Seldom())


class Seldom(logging.Filter):
    """Lets a library say the same thing every 30 s: ten times a second is what they do while a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether this record should be written."""
        if record.name.startswith("streams"):
            return True
        known = self._said.get((record.name, record.msg))
        if known is not None and record.created - known < QUIET_S:
            return False
        self._said[record.name, record.msg] = record.created
        return True
