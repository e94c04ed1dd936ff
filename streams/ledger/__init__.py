"""Every event accounted for, and taking back what should not have been learned."""

from streams.ledger.balance import Audit
from streams.ledger.unlearning import batches_of, effect

__all__ = ["Audit", "batches_of", "effect"]
