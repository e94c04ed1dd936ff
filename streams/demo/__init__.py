"""The closed loop with simulated users."""

from streams.demo.live import play_live
from streams.demo.play import run_demo
from streams.demo.report import scores, table_of, write_curves
from streams.demo.traffic import Crowdedness, Storefront, Traffic, TrafficError, write_shop

__all__ = [
    "Crowdedness",
    "Storefront",
    "Traffic",
    "TrafficError",
    "play_live",
    "run_demo",
    "scores",
    "table_of",
    "write_curves",
    "write_shop",
]
