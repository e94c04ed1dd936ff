"""Every event accounted for, and taking back what should not have been learned."""

from streams.ledger.balance import Audit
from streams.ledger.unlearning import EVER_MS, Selection, batches_of, effect

__all__ = ["EVER_MS", "Audit", "Selection", "batches_of", "effect"]
