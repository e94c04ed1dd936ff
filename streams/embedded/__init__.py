"""The whole flow in one process on a directory, without any server."""

from streams.embedded.logs import STANDING, committed, logged_rules

__all__ = ["STANDING", "committed", "logged_rules"]
