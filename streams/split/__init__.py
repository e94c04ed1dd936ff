"""Who sees which bucket."""

from streams.split.users import bucket_of

__all__ = ["bucket_of"]
