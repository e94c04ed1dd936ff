"""Lag of a live broker: asked, watched, shown, exported."""

from streams.lag.job.exporter import serve_lag
from streams.lag.job.reader import LagReader
from streams.lag.job.view import show_lag

__all__ = ["LagReader", "serve_lag", "show_lag"]
