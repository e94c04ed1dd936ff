"""Who sees which bucket."""

from streams.split.split import Split, UnknownNamespace

__all__ = ["Split", "UnknownNamespace"]
