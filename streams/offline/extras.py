"""Optional modules, and the extra to install when one is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class ExtraMissing(ImportError):
    """A command needs an optional package that is not installed."""


def needed(module: str, *, extra: str) -> ModuleType:
    """Return an optional module; when it is missing, say which extra of Glimpse brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        words = f"this needs {error.name}; install it, in Glimpse's folder: pip install '.[{extra}]'"
        raise ExtraMissing(words) from error
