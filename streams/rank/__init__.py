"""Snapshots and candidates in, lists out."""

from streams.rank.candidates import Candidates, read_candidates

__all__ = ["Candidates", "read_candidates"]
