"""Breaking it on purpose: a load, a seeded plan of faults, and whether every bit is right after each of them."""

from streams.drill.buckets import drill_settings
from streams.drill.faults import SERVERS, WORKERS, Fault, plan_faults, possible_faults
from streams.drill.outcome import Outcome, table_of

__all__ = ["SERVERS", "WORKERS", "Fault", "Outcome", "drill_settings", "plan_faults", "possible_faults", "table_of"]
