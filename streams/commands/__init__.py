"""glimpse <command>: thin functions around the work, and errors that people can read."""

from streams.commands.main import main

__all__ = ["main"]
