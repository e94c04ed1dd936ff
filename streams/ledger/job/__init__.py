"""The ledger of a running Glimpse, and taking back on Kafka."""

from streams.ledger.job.audit import audit
from streams.ledger.job.commits import join_commits
from streams.ledger.job.unlearn import plan_on, unlearn

__all__ = ["audit", "join_commits", "plan_on", "unlearn"]
