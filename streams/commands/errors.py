"""Errors as people can read them."""

from __future__ import annotations

import errno
import logging
import re
import traceback
from collections.abc import Callable

from streams.commands.options import note

HALF = 500  # characters of an error that quotes more than a screen: its beginning, and its end with what to do


class LastWords(logging.Handler):
    """Keeps the last reason that kafka-python logged: its errors only say that nothing worked."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep why a connection failed."""
        match = re.match(r"Bootstrap connection to \S+ failed: (.*?)(?: \(backoff.*)?$", record.getMessage())
        if match and not (self.text and "RequestTimedOut" in match[1]):  # the last try may only have had no time left
            self.text = f" ({match[1]})"


def code_of(command: str, work: Callable[[], int]) -> int:
    """Return what the work of a command returns, or 2 for an error, which is said: 1 would be a verdict."""
    try:
        return work()
    except Exception as error:
        words = explained(error)
        if words is None:
            traceback.print_exc()
        else:
            note(f"glimpse {command}: {words}")
        return 2


def explained(error: Exception, last_words: str = "") -> str | None:
    """Return what a user must know of an expected error, in one line; None for a bug, which keeps its trace."""
    from streams.settings import without_logins

    words = without_logins(in_words(error, last_words) or "")
    return words[:HALF] + " … " + words[-HALF:] if len(words) > 2 * HALF else words or None


def in_words(error: Exception, last_words: str) -> str | None:
    """Return the words for an error as it is, secrets and all."""
    words = " ".join(str(error).split()) or type(error).__name__
    home = type(error).__module__.partition(".")[0]
    if home in ("streams", "schemas", "__main__"):  # made for people
        return words
    if home == "kafka":
        from kafka.errors import KafkaConnectionError, KafkaTimeoutError

        if isinstance(error, (KafkaTimeoutError, KafkaConnectionError)):
            advice = "see GLIMPSE_KAFKA, its security and password, or start one: glimpse up"
            return f"Kafka does not answer: {words}{last_words}; {advice}"
        return f"Kafka: {words}"
    if isinstance(error, OSError) and error.strerror:
        advice = "; free some space and run it again: it goes on" if error.errno == errno.ENOSPC else ""
        return f"{error.filename}: {error.strerror}{advice}" if error.filename else f"{error.strerror}{advice}"
    if home == "redis":
        return f"Redis: {words}; see GLIMPSE_REDIS, or start one: glimpse up"
    return None
