"""The page of a live log: readers, state, server."""

from streams.dashboard.job.run import of_archive, of_kafka, serve

__all__ = ["of_archive", "of_kafka", "serve"]
