"""The closed loop with simulated users."""

from streams.demo.play import run_demo

__all__ = ["run_demo"]
