"""The ledger of a running Glimpse, and taking back on Kafka."""

from streams.ledger.job.audit import Audit, audit
from streams.ledger.job.standing import join_commits
from streams.ledger.job.unlearn import batches_of, effect, plan_unlearning, unlearn

__all__ = ["Audit", "audit", "batches_of", "effect", "join_commits", "plan_unlearning", "unlearn"]
