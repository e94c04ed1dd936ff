"""The closed loop with simulated users."""

from streams.demo.curves import write_curves
from streams.demo.local_loop import LocalLoop
from streams.demo.play import run_demo
from streams.demo.scores import scores, table_of
from streams.demo.storefront import Storefront, write_shop
from streams.demo.traffic import Crowdedness, Traffic, TrafficError

__all__ = [
    "Crowdedness",
    "LocalLoop",
    "Storefront",
    "Traffic",
    "TrafficError",
    "run_demo",
    "scores",
    "table_of",
    "write_curves",
    "write_shop",
]
