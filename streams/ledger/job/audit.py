"""The audit: the balance of each partition's counts against the topics, and what does not add up."""

from __future__ import annotations

from streams.ledger.balance import Audit
from streams.ledger.counts import OUTPUTS, count_written, gaps_of
from streams.ledger.job.commits import join_commits
from streams.logs import LogSource
from streams.replay import plan_of
from streams.replay.job import replay
from streams.settings import Settings


def audit(source: LogSource, settings: Settings) -> Audit:
    """Balance a running deployment, the directory of an embedded runner, or an archive of all topics.

    Where a join has committed, its ledger must agree with what it has written. An archive has no commits, so its events
    are joined again: the samples must hold every list that was due and none that the events do not give.
    """
    before = {number: commit.ledger for number, commit in join_commits(source).items()}
    if before:
        written = count_written(source)  # the jobs go on meanwhile
        result = Audit({number: commit.ledger for number, commit in join_commits(source).items()}, written)
        result.check_committed(before, topic_prefix=settings.topic_prefix)
    else:
        plan, notes = plan_of(source, settings, samples=False, finish=False)
        result = Audit(replay(plan).ledgers, count_written(source), notes=notes)
        result.check_rejoined(gaps_of(source))
    result.note_incomplete({topic: source.has(topic) for topic in OUTPUTS})
    return result
