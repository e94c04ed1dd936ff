"""Every event accounted for, and taking back what should not have been learned."""
