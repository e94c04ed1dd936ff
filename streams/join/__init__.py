"""Impressions and clicks in, samples out."""

from streams.join.commit import BadCommit, Commit, Ledger, LogPart, RuleEra
from streams.join.merge import ADDERS, checkpoints, resumed_join
from streams.join.outbox import Checkpoint
from streams.join.rules import JoinRules
from streams.join.session_join import SessionJoin

__all__ = [
    "ADDERS",
    "BadCommit",
    "Checkpoint",
    "Commit",
    "JoinRules",
    "Ledger",
    "LogPart",
    "RuleEra",
    "SessionJoin",
    "checkpoints",
    "resumed_join",
]
