"""Impressions and clicks in, samples out."""

from streams.join.clock import IdleTime
from streams.join.commit import Commit
from streams.join.ledger import Ledger
from streams.join.log_part import BadCommit, LogPart, RuleEra
from streams.join.merge import checkpoints, feed_block, resumed_join
from streams.join.outbox import Checkpoint
from streams.join.rules import JoinRules
from streams.join.session_join import SessionJoin

__all__ = [
    "BadCommit",
    "Checkpoint",
    "Commit",
    "IdleTime",
    "JoinRules",
    "Ledger",
    "LogPart",
    "RuleEra",
    "SessionJoin",
    "checkpoints",
    "feed_block",
    "resumed_join",
]
