"""The Faust app of the learners: ``faust -A streams.app worker``."""

from typing import Any

from streams.learn.job import create_app
from streams.settings import load

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """Make ``app`` when Faust asks for it, so that importing this module reads no environment."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = create_app(load())
    return globals()["app"]
