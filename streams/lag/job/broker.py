"""Questions to a broker about topics, groups and transactions (kafka-python)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import AuthorizationError, KafkaError
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from streams.broker import TopicState, admin_client, describe_topics, topic_specs
from streams.lag.commit_records import Committed
from streams.lag.facts import LogState, LogsView, Retention, Unread
from streams.lag.job.count import RecordCounter
from streams.lag.job.logs import PATIENCE_MS, reader
from streams.settings import Settings, Topics

ONGOING = ("Ongoing", "PrepareCommit", "PrepareAbort")
OPEN_MS = 2**63 - 1  # stamps of any time are taken


class Broker:
    """Asks one cluster, over connections that are kept until ``close``."""

    def __init__(self, settings: Settings) -> None:
        self._admin = admin_client(settings, request_timeout_ms=PATIENCE_MS, bootstrap_timeout_ms=PATIENCE_MS)
        # Faust's members describe themselves in a way of their own, which would be said at every reading.
        logging.getLogger("kafka.admin._groups").setLevel(logging.ERROR)
        self._counters: dict[str, RecordCounter] = {}
        self._settings = settings
        self._unstable = reader(settings, isolation_level="read_uncommitted")

    def close(self) -> None:
        """Let go of the connections."""
        for client in (self._admin, self._unstable, *self._counters.values()):
            client.close()

    def topics(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Return the topics that are there."""
        return describe_topics(self._admin, names)

    def retention(self, names: Iterable[str]) -> dict[str, Retention]:
        """Return how long each topic keeps records, and whose clock stamps them."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        wanted = {topic.name: topic.config for topic in topic_specs(self._settings)}
        retentions = {}
        for name, described in self._admin.describe_configs(asked, config_filter="all")["topic"].items():
            known = "retention.ms" in described  # without DESCRIBE_CONFIGS there is nothing; then it is as it should be
            config = {key: entry["value"] for key, entry in described.items()} if known else wanted[name]
            deletes = known and "delete" in config["cleanup.policy"]
            retentions[name] = Retention(
                int(config["retention.ms"]) / 1000 if deletes and int(config["retention.ms"]) >= 0 else None,
                self._live(name, config),
                "compact" in config["cleanup.policy"],
                by_size=deletes and int(config["retention.bytes"]) >= 0,
                known=known,
            )
        return retentions

    def _live(self, name: str, config: Mapping[str, str]) -> bool:
        """Return whether stamps tell when a topic was written: the broker's, the join's, or those it holds near now."""
        if config.get("message.timestamp.type") == "LogAppendTime" or name == Topics.of(self._settings).samples:
            return True
        return int(config.get("message.timestamp.after.max.ms", OPEN_MS)) < OPEN_MS  # a log that is loaded opens it

    def logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogState]:
        """Return where partitions begin and end."""
        high = self._offsets(partitions, OffsetSpec.LATEST)  # first, so that only a transaction can hold the end below
        end = self._offsets(partitions, OffsetSpec.LATEST, stable=True)
        start = self._offsets(partitions, OffsetSpec.EARLIEST)
        return {at: LogState(start[at].offset, end[at].offset, max(end[at].offset, high[at].offset)) for at in end}

    def offsets_at(self, partitions: Iterable[TopicPartition], at_ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset with a time stamp from ``at_ms`` on, or None when there is none yet."""
        answers = self._offsets(partitions, at_ms, stable=True)
        return {partition: answer.offset if answer.offset >= 0 else None for partition, answer in answers.items()}

    def newest_ms(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the highest time stamp of each partition."""
        answers = self._offsets(partitions, OffsetSpec.MAX_TIMESTAMP)
        return {partition: int(newest.timestamp) for partition, newest in answers.items()}

    def oldest_ms(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the time stamp of the first record that each partition still has, if it has one."""
        answers = self._offsets(partitions, 0)  # the first that is not from before 1970
        return {partition: int(answer.timestamp) for partition, answer in answers.items() if answer.offset >= 0}

    def _offsets(self, partitions: Iterable[TopicPartition], what: int, *, stable: bool = False) -> Mapping[Any, Any]:
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        return self._admin.list_partition_offsets(dict.fromkeys(partitions, what), isolation_level=level)  # type: ignore[no-any-return]

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """Return the offsets that a group has committed."""
        offsets = self._admin.list_group_offsets({group: None}).get(group, {})
        return {
            partition: Committed(at.offset, at.metadata or "") for partition, at in offsets.items() if at.offset >= 0
        }

    def members(self, group: str) -> int | None:
        """Return how many consumers a group has; None where that is hidden."""
        try:
            described = self._admin.describe_groups([group])[group]
        except AuthorizationError:
            return None
        return None if "Authorization" in str(described.get("error") or "") else len(described["members"])

    def open_transactions(self, logs: Mapping[TopicPartition, LogState]) -> dict[TopicPartition, tuple[int, str]]:
        """Return since when, and by whom, a transaction holds back the end of each of these partitions.

        The coordinator knows; where it does not tell, the time stamp of the first record held back must do.
        """
        begun: dict[TopicPartition, tuple[int, str]] = {}
        try:
            listed = [
                transaction
                for transactions in self._admin.list_transactions(state_filters=ONGOING).values()
                for transaction in transactions
            ]
            described = self._admin.describe_transactions([transaction.transactional_id for transaction in listed])
            for writer, transaction in described.items():
                start = transaction.transaction_start_time_ms, writer
                begun |= {
                    partition: min(start, begun.get(partition, start))
                    for partition in transaction.topic_partitions & logs.keys()
                }
        except KafkaError:
            begun = {}  # not allowed, gone in between, or a broker before Kafka 3.0
        for partition in logs.keys() - begun.keys():
            self._unstable.assign([partition])
            self._unstable.seek(partition, logs[partition].end)
            for [record] in self._unstable.poll(timeout_ms=1000, max_records=1).values():  # none: it has ended by now
                begun[partition] = int(record.timestamp), ""
        return begun

    def unread(
        self, group: str, positions: Mapping[TopicPartition, int], view: LogsView
    ) -> dict[TopicPartition, Unread]:
        """Return what a group has not read: records before each partition's end, and the time stamp of the first."""
        if group not in self._counters:
            self._counters[group] = RecordCounter(reader(self._settings, max_partition_fetch_bytes=1 << 16))
        starts = {partition: max(position, view.logs[partition].start) for partition, position in positions.items()}
        ends = {partition: view.logs[partition].end for partition in positions}
        lasting = {name: view.topic_ids[name] for name, kept in view.retention.items() if not kept.compacts}
        return self._counters[group].unread(starts, ends, lasting)
