"""Events on their way to Kafka: the writer that services use, and produce."""

from streams.events.job.writer import DeliveryError, EventWriter

__all__ = ["DeliveryError", "EventWriter"]
