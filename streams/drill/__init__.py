"""Breaking it on purpose: a load, a seeded plan of faults, and whether every bit is right after each of them."""

from streams.drill.faults import SERVERS, WORKERS, Fault, Outcome, plan_faults, possible_faults, table_of

__all__ = ["SERVERS", "WORKERS", "Fault", "Outcome", "plan_faults", "possible_faults", "table_of"]
