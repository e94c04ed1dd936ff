"""The whole flow in one process on a directory, without any server."""

from streams.embedded.logs import STANDING, committed

__all__ = ["STANDING", "committed"]
