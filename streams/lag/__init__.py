"""Offsets in, verdicts out: how far consumers are behind, and whether that is well."""

from streams.lag.verdict import Window, spoken

__all__ = ["Window", "spoken"]
