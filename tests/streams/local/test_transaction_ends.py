"""The version of Kafka that runs here ends no transaction without a partition that has no leader just now."""

import time

from jobs import wait_until
from kafka.admin import NewTopic

from streams.broker import admin, transactional
from streams.local.kafka import LocalKafka
from streams.settings import Settings


def test_a_transaction_is_not_complete_while_one_of_its_partitions_has_no_leader(programs, tmp_path):
    """A disk fails, and a transaction with a partition on it is committed.

    Kafka 4.3.0 and 4.3.1 take that partition for deleted and the transaction for complete. With a single broker no
    partition has a leader while it comes back from a kill -9, so that a commit under way could be lost half done: its
    records and offsets were held back for ever.
    """
    broker = LocalKafka(tmp_path)
    broker.config |= {
        "log.dirs": f"{tmp_path / 'data'},{tmp_path / 'disk'}",  # a partition goes to the one that has fewer
        "metadata.log.dir": str(tmp_path / "metadata"),
        "transaction.state.log.num.partitions": "1",
        "log.flush.offset.checkpoint.interval.ms": "100",  # a lost disk is found by who writes on it
    }
    broker.start()
    settings = Settings(kafka=broker.bootstrap)
    writer = transactional(settings, "writer", transaction_timeout_ms=60_000)
    try:
        with admin(settings) as client:
            client.create_topics([NewTopic("log", 1, 1)])
            writer.init_transactions()
            writer.begin_transaction()
            writer.send("log", b"once").get(timeout=20)
            [disk] = {path.parent for path in tmp_path.glob("*/log-0")}
            assert not list(disk.glob("__transaction_state-*"))
            disk.rename(tmp_path / "lost")
            wait_until(
                lambda: [one["leader_id"] for one in client.describe_topics(["log"])[0]["partitions"]] == [-1],
                timeout_s=60,
            )
            writer.commit_transaction()  # decided: it is to end so, sooner or later
            time.sleep(2)  # a broker that wrongly takes it for complete does so at once
            found = client.describe_transactions(["writer"])["writer"]
            assert (found.state.value, sorted(found.topic_partitions)) == ("PrepareCommit", [("log", 0)])
    finally:
        writer.close(1)
        broker.kill()
