"""Impressions and clicks in, samples out."""

from streams.join.checkpoint import Checkpoint
from streams.join.commit import BadCommit, Commit
from streams.join.ledger import Ledger
from streams.join.merge import checkpoints, feed_block, rebuild_join
from streams.join.session_join import SessionJoin

__all__ = ["BadCommit", "Checkpoint", "Commit", "Ledger", "SessionJoin", "checkpoints", "feed_block", "rebuild_join"]
