"""Rollouts on Kafka: what serves now, relearning a bucket beside it, and writing the record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from kafka.errors import KafkaError

from learner import Bandit
from learner.click_models import UBM
from schemas.codec import encode
from schemas.records import Rollout
from streams.broker import await_sent, partition_of, producer
from streams.logs import LogSource, SourceAway
from streams.logs.job import open_source
from streams.offline import ListChoice, read_own_logs
from streams.parameters import ROLLOUT, SnapshotMissing, frozen_model, name_of, take_snapshot
from streams.parameters.job import KafkaParameters
from streams.replay import plan_of
from streams.replay.job import replay
from streams.rollout.effect import Effect, ShownLists, effect_of
from streams.rollout.plan import RolloutError, RolloutPlan, Serving
from streams.settings import Settings, Topics

MOST_LISTS = 20_000  # that two models are compared on: the newest


@dataclass(frozen=True, slots=True)
class Relearned:
    """A bucket learned anew from the samples log, and how it differs from what serves."""

    model: Bandit
    effect: Effect
    table: str  # whose examination the click rates are judged by


def serving_of(settings: Settings, name: str) -> Serving:
    """Return a bucket as it serves now."""
    if name not in settings.buckets:
        raise RolloutError(f"no bucket {name!r} in the settings; there: {', '.join(settings.buckets) or 'none'}")
    with closing(KafkaParameters(settings)) as store:
        store.catch_up()
        snapshot = store.snapshots.get(name)
        if snapshot is None:
            raise SnapshotMissing(
                f"no model under {store.where(name)}: a bucket that serves nobody needs no rollout; change glimpse.toml"
            )
        return Serving(settings.buckets[name], snapshot, store.rollouts.get(name), store.candidates.get(name))


def check_log(settings: Settings, plan: RolloutPlan, *, truncated: bool) -> list[str]:
    """Refuse a samples log that has lost its beginning, unless told; return what should be said then."""
    serving = plan.serving
    with closing(open_source("kafka", settings)) as logs:
        home = partition_of(settings.buckets[serving.bucket].learns_from, logs.partitions("samples"))
        first, _ = logs.bounds("samples", home)
        other_topic = logs.topic_id("samples") != serving.samples_topic_id
    if other_topic or home != serving.samples_partition:
        missing = f"{serving.bucket!r} was learned from another partition or topic of samples than the one it is on now"
    elif first:
        missing = f"the samples of {serving.bucket!r} begin at offset {first}: what was before is gone"
    else:
        return []
    if not truncated:
        raise RolloutError(f"{missing}, so a new epoch would have learned less; --truncated does with what is left")
    return [f"{missing}; the new epoch is learned from what is left"]


def relearn(
    settings: Settings, plan: RolloutPlan, *, say: Callable[[int, int], None] = lambda passed, total: None
) -> Relearned:
    """Learn the plan's bucket from the samples log as it is now, and compare it with what serves."""
    name, bucket = plan.after.name, plan.after
    changed = replace(settings, buckets={**settings.buckets, name: bucket})
    with closing(open_source("kafka", changed)) as logs:
        work, _ = plan_of(logs, changed, samples=True, only=[name])
        model = replay(work, say=say).models[name]
        shown = newest_lists(logs, changed, name)
    taken = take_snapshot(model, bucket, samples_offset=0, topic_id="", partition=0, published_at_ms=0)
    tables = [(plan.after.examination, "the new table")]
    tables += [(plan.before.examination, "the table that serves")] if plan.before is not None else []
    known = [(table, whose) for table, whose in tables if table is not None and table.ndim == 2]
    if not known:
        fitted = UBM().fit(shown.items, shown.rewards, sizes=(shown.items >= 0).sum(axis=1))
        known = [(fitted.examination, "a table fitted to these lists")]
    examination, whose = known[0]
    try:
        effect = effect_of(frozen_model(plan.serving), frozen_model(taken), shown, examination=examination)
    except ArithmeticError as error:  # more was taken back than learned
        raise RolloutError(f"{name_of(plan.serving)} cannot be compared: {error}; --yes does not compare") from error
    return Relearned(model, effect, whose)


def newest_lists(logs: LogSource, settings: Settings, name: str) -> ShownLists:
    """Return the newest lists of a bucket, as they ended up."""
    columns, _ = read_own_logs(logs, settings, ListChoice(buckets=(name,), truncated=True))
    newest = slice(-MOST_LISTS, None)
    contexts = None if columns.contexts is None else columns.contexts[newest]
    return ShownLists(np.array(columns.item_ids), columns.items[newest], columns.clicks[newest], contexts)


def write(settings: Settings, record: Rollout) -> None:
    """Put a rollout in force: running workers take it up."""
    topic = Topics.of(settings).parameters
    try:
        with closing(producer(settings)) as writer:
            await_sent([writer.send(topic, encode(record), f"{ROLLOUT}{record.bucket}".encode())])
    except KafkaError as error:
        raise SourceAway(f"cannot write to {topic} on Kafka at {settings.kafka}: {error}") from error
