"""Events on their way to Kafka: the writer that services use, and produce."""

from streams.events.job.produce import produce_events, simulated_events
from streams.events.job.writer import DeliveryError, EventWriter

__all__ = ["DeliveryError", "EventWriter", "produce_events", "simulated_events"]
