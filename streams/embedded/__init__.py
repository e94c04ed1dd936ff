"""The whole flow in one process on a directory, without any server."""

from streams.embedded.logs import STANDING, read_standing

__all__ = ["STANDING", "read_standing"]
