"""Offsets in, verdicts out: how far consumers are behind, and whether that is well."""

from streams.lag.verdict import Window

__all__ = ["Window"]
