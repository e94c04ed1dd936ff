"""Questions to a broker about topics, groups and transactions (kafka-python)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import AuthorizationError, KafkaError
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from streams.broker import Found, admin_client, describe_topics, topic_specs
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

    def topics(self, names: Iterable[str]) -> dict[str, Found]:
        """Return the topics that are there."""
        return describe_topics(self._admin, names)

    def retention(self, names: Iterable[str]) -> dict[str, Retention]:
        """Return how long each topic keeps records, and whose clock stamps them."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        found = {}
        for name, config in self._admin.describe_configs(asked, config_filter="all")["topic"].items():
            if "retention.ms" not in config:  # without DESCRIBE_CONFIGS there is nothing; then it is as it should be
                wanted = next(topic.config for topic in topic_specs(self._settings) if topic.name == name)
                live = self._live(name, wanted)
                found[name] = Retention(None, live, "compact" in wanted["cleanup.policy"], known=False)
                continue
            kept_ms, policy = int(config["retention.ms"]["value"]), config["cleanup.policy"]["value"]
            deletes = "delete" in policy
            found[name] = Retention(
                kept_ms / 1000 if deletes and kept_ms >= 0 else None,
                self._live(name, {key: entry["value"] for key, entry in config.items()}),
                "compact" in policy,
                by_size=deletes and int(config["retention.bytes"]["value"]) >= 0,
            )
        return found

    def _live(self, name: str, config: Mapping[str, str]) -> bool:
        """Return whether stamps tell when a topic was written: the broker's, the join's, or those it holds near now."""
        if config.get("message.timestamp.type") == "LogAppendTime" or name == Topics.of(self._settings).samples:
            return True
        return int(config.get("message.timestamp.after.max.ms", OPEN_MS)) < OPEN_MS  # a log that is loaded opens it

    def logs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogState]:
        """Return where partitions begin and end."""
        asked = list(partitions)
        high = self._offsets(asked, OffsetSpec.LATEST)  # first, so that only a transaction can hold the end below it
        end = self._offsets(asked, OffsetSpec.LATEST, stable=True)
        start = self._offsets(asked, OffsetSpec.EARLIEST)
        found = {
            partition: (start[partition].offset, end[partition].offset, high[partition].offset) for partition in asked
        }
        return {partition: LogState(start, end, max(end, high)) for partition, (start, end, high) in found.items()}

    def offsets_at(self, partitions: Iterable[TopicPartition], at_ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset with a time stamp from ``at_ms`` on, or None when there is none yet."""
        found = self._offsets(list(partitions), at_ms, stable=True)
        return {partition: one.offset if one.offset >= 0 else None for partition, one in found.items()}

    def newest_ms(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the highest time stamp of each partition."""
        return {
            partition: int(one.timestamp)
            for partition, one in self._offsets(list(partitions), OffsetSpec.MAX_TIMESTAMP).items()
        }

    def oldest_ms(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the time stamp of the first record that each partition still has, if it has one."""
        found = self._offsets(list(partitions), 0)  # the first that is not from before 1970
        return {partition: int(one.timestamp) for partition, one in found.items() if one.offset >= 0}

    def _offsets(self, partitions: list[TopicPartition], what: int, *, stable: bool = False) -> Mapping[Any, Any]:
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        return self._admin.list_partition_offsets(dict.fromkeys(partitions, what), isolation_level=level)  # type: ignore[no-any-return]

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Committed]]:
        """Return the offsets that groups have committed."""
        found = self._admin.list_group_offsets(dict.fromkeys(groups))
        return {
            group: {
                partition: Committed(one.offset, one.metadata or "")
                for partition, one in partitions.items()
                if one.offset >= 0
            }
            for group, partitions in found.items()
        }

    def members(self, groups: Iterable[str]) -> dict[str, int | None]:
        """Return how many consumers each group has; None where that is hidden."""
        found: dict[str, int | None] = {}
        for group in groups:
            try:
                one = self._admin.describe_groups([group])[group]
                found[group] = None if "Authorization" in str(one.get("error") or "") else len(one["members"])
            except AuthorizationError:
                found[group] = None
        return found

    def open_transactions(self, logs: Mapping[TopicPartition, LogState]) -> dict[TopicPartition, tuple[int, str]]:
        """Return since when, and by whom, a transaction holds back the end of each of these partitions.

        The coordinator knows; where it does not tell, the time stamp of the first record held back must do.
        """
        begun: dict[TopicPartition, tuple[int, str]] = {}
        try:
            listed = [one for each in self._admin.list_transactions(state_filters=ONGOING).values() for one in each]
            described = self._admin.describe_transactions([one.transactional_id for one in listed])
            for writer, one in described.items():
                for partition in one.topic_partitions & logs.keys():
                    begun[partition] = min((one.transaction_start_time_ms, writer), begun.get(partition, (2**62, "")))
        except KafkaError:
            begun = {}  # not allowed, gone in between, or a broker before Kafka 3.0
        for partition in logs.keys() - begun.keys():
            first = self._first_unstable(partition, logs[partition].end)
            if first is not None:
                begun[partition] = (first, "")
        return begun

    def _first_unstable(self, partition: TopicPartition, offset: int) -> int | None:
        self._unstable.assign([partition])
        self._unstable.seek(partition, offset)
        for records in self._unstable.poll(timeout_ms=1000, max_records=1).values():
            return int(records[0].timestamp)
        return None  # it has ended by now

    def unread(
        self, group: str, positions: Mapping[TopicPartition, int], view: LogsView
    ) -> dict[TopicPartition, Unread]:
        """Return what a group has not read: records before each partition's end, and the time stamp of the first."""
        if group not in self._counters:
            self._counters[group] = RecordCounter(reader(self._settings, max_partition_fetch_bytes=1 << 16))
        starts = {partition: max(position, view.logs[partition].start) for partition, position in positions.items()}
        ends = {partition: view.logs[partition].end for partition in positions}
        lasting = {
            name: one
            for name, one in view.topic_ids.items()
            if name in view.retention and not view.retention[name].compacts
        }
        return self._counters[group].unread(starts, ends, lasting)
