"""The audit: the balance of each partition's counts against the topics, and what does not add up."""

from __future__ import annotations

import time

from streams.ledger.balance import Audit
from streams.ledger.counts import OUTPUTS, count_written, gaps_of
from streams.ledger.job.commits import join_commits
from streams.logs import LogSource
from streams.logs.job import KafkaSource
from streams.replay import plan_of, snapshots_at
from streams.replay.job import replay
from streams.settings import Settings

LEARNED_WITHIN_S = 10.0  # of being written, samples are in a snapshot


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
    _check_learned(result, source, settings)
    return result


def _check_learned(result: Audit, source: LogSource, settings: Settings) -> None:
    """Follow the samples into the snapshots; learners that are at work get a moment for what was just written."""
    live, give_up_at = isinstance(source, KafkaSource), time.monotonic() + LEARNED_WITHIN_S
    while True:
        found = snapshots_at(source, settings.buckets)
        if found is None:
            result.notes.append("parameters was not compared: it is not there")
            return
        topic_id = source.topic_id("samples")  # snapshots of another one of that name are none of this log
        snapshots = {name: snapshot for name, snapshot in found.items() if snapshot.samples_topic_id == topic_id}
        learned = result.written.flow.learned(snapshots, settings.buckets)
        if not live or time.monotonic() > give_up_at or not any(one.waiting for one in learned):
            result.check_learned(learned, live=live)
            return
        time.sleep(0.5)
