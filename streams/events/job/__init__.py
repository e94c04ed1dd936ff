"""Events on their way to Kafka: the writer that services use, and produce."""

from streams.events.job.produce import foreign_event, produce_events, simulated_events
from streams.events.job.queue import EventQueue
from streams.events.job.writer import DeliveryError, EventWriter

__all__ = ["DeliveryError", "EventQueue", "EventWriter", "foreign_event", "produce_events", "simulated_events"]
