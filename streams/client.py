"""What a service logs with: ``from streams.client import EventWriter``."""

from streams.events.job import DeliveryError, EventWriter

__all__ = ["DeliveryError", "EventWriter"]
