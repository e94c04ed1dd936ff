"""The drill itself: servers, workers, load, faults, and the golden run beside them."""

from streams.drill.job.breakable import own_servers, servers_as_set
from streams.drill.job.run import run_drill

__all__ = ["own_servers", "run_drill", "servers_as_set"]
