"""What the real jobs learned on Kafka is what a replay learns, from an archive and from the broker, bit by bit."""

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest
from jobs import GLIMPSE, Jobs, wait_until
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from traffic import DIM, K, examination, publish, traffic

from schemas.records import Snapshot
from streams.broker import create_topics, partition_of
from streams.learn import samples_of
from streams.ledger import Selection
from streams.ledger.job import audit, unlearn
from streams.ledger.unlearning import read_samples
from streams.logs import Archive, ArchiveSource, parse_time, time_text
from streams.logs.job import KafkaSource, copy
from streams.logs.source import TransactionOpen
from streams.parameters import Newest
from streams.parameters.job import KafkaParameters
from streams.replay import ReplayError, compare, live_snapshots, plan_of
from streams.replay.compare import published
from streams.replay.job import Interrupted, Wanted, rebuild, replay, snapshots_of, write_topic
from streams.settings import Bucket, Settings, Topics

BUCKETS = {
    "ubm": Bucket("ubm", "ubm-linucb", DIM, K, examination(1), ridge="safe"),
    "plain": Bucket("plain", "c2ucb", DIM, K),
    "pbm": Bucket("pbm", "pbm-ucb", DIM, K, np.linspace(1, 0.3, K)),
}
LISTS = 4_000


def groups(settings) -> dict:
    """Every group of the broker with its commits."""
    client = KafkaAdminClient(**settings.kafka_options())
    try:
        names = sorted(group["group_id"] for group in client.list_groups())
        return {name: client.list_group_offsets(name) for name in names if settings.topic_prefix in name}
    finally:
        client.close()


@pytest.fixture(scope="module")
def live(kafka, tmp_path_factory):
    """A run of real workers on real topics, ended once everything is learned; and its archive."""
    folder = tmp_path_factory.mktemp("live")
    settings = Settings(
        kafka=kafka,
        buckets=BUCKETS,
        wait_s=10,
        lateness_s=10,
        partitions=2,
        publish_every_s=0.3,
        timestamps="CreateTime",
        topic_prefix=f"t{uuid4().hex[:12]}-",
        web_port=0,
        join_web_port=0,
    )
    create_topics(settings)
    start_ms = int(time.time() * 1000) - 3_600_000
    impressions, clicks = traffic(
        LISTS,
        buckets=list(BUCKETS),
        start_ms=start_ms,
        span_ms=200_000,
        wait_ms=10_000,
        lateness_ms=10_000,
        seed=3,
    )
    names = Topics.of(settings)
    jobs, reader = Jobs(settings, folder), KafkaParameters(settings)

    def complete() -> bool:
        reader.catch_up()
        return sum(snapshot.rounds for snapshot in reader.snapshots.values()) == LISTS

    try:
        jobs.start("join", "--from", "earliest")
        jobs.start("learn")
        for third in range(3):
            publish(settings.kafka, names.impressions, part(impressions, third))
            publish(settings.kafka, names.clicks, part(clicks, third))
        wait_until(complete, timeout_s=90, jobs=jobs)
    finally:
        jobs.close()
        reader.close()
    archive = Archive(folder / "archive")
    copy(settings, archive)
    return settings, archive, {name: snapshot.sha256 for name, snapshot in reader.snapshots.items()}, jobs.toml


def part(events: list, third: int) -> list:
    size = len(events) // 3 + 1
    return events[third * size : (third + 1) * size]


@pytest.mark.parametrize("samples", [False, True], ids=["events", "samples"])
@pytest.mark.parametrize("place", ["archive", "kafka"])
def test_live_equals_replay(live, place, samples):
    settings, archive, wanted, _ = live
    source = ArchiveSource(archive) if place == "archive" else KafkaSource(settings)
    before = groups(settings)
    assert any(before.values())
    plan, notes = plan_of(source, settings, samples=samples)
    done = replay(plan)
    assert {name: model.sha256() for name, model in done.models.items()} == wanted
    assert notes == []
    assert groups(settings) == before, "no group was made or moved"
    found = compare(done.models, live_snapshots(source))
    assert [comparison.same_sums for comparison in found] == [True] * 3
    source.close()


def test_every_published_snapshot_is_rebuilt_bit_by_bit(live):
    settings, archive, wanted, _ = live
    source = ArchiveSource(archive)
    versions = sorted({(record.bucket, record.version) for record in published(source, Snapshot)})
    assert len(versions) > 3
    for bucket, version in versions:
        done = rebuild(source, settings, Wanted(bucket, version))
        assert done.published is not None
        assert done.model.sha256() == done.published.sha256
    assert wanted == {
        bucket: rebuild(source, settings, Wanted(bucket, version)).model.sha256() for bucket, version in versions
    }, "the last of each is the newest"


def test_a_replayed_model_goes_to_a_topic_of_its_own(live):
    settings, archive, wanted, _ = live
    plan, _ = plan_of(ArchiveSource(archive), settings, samples=True, changes={"epoch": 2})
    snapshots = snapshots_of(replay(plan), now_ms=1)
    with pytest.raises(ReplayError, match="is what rankers read now"):
        write_topic(settings, Topics.of(settings).parameters, snapshots)
    other = f"{settings.topic_prefix}again-parameters"
    write_topic(settings, other, snapshots)
    write_topic(settings, other, snapshots)
    changed, _ = plan_of(ArchiveSource(archive), settings, samples=True, changes={"epoch": 2, "ridge": 9.0})
    with pytest.raises(ReplayError, match="raise --epoch above 2"):
        write_topic(settings, other, snapshots_of(replay(changed), now_ms=1))
    gathered = Newest()
    for record in published(KafkaSource(replace(settings, topic_prefix=f"{settings.topic_prefix}again-")), Snapshot):
        gathered.add(record)
    assert {name: snapshot.sha256 for name, snapshot in gathered.by_bucket.items()} == wanted
    assert all(snapshot.epoch == 2 for snapshot in gathered.by_bucket.values())


def test_the_command_says_what_it_did(live, tmp_path):
    _, archive, wanted, toml = live
    run = subprocess.run(
        [GLIMPSE, "replay", str(archive.path), "--config", str(toml), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, "Traceback" in run.stderr) == (0, False), run.stderr
    for name, sha in wanted.items():
        assert f"{sha}\n" in run.stdout
        assert f"{name}: the same bits as {name}@1." in run.stdout
        assert (tmp_path / "out" / f"{name}.snapshot").exists()
    assert "rows/s" in run.stdout
    [newest] = [snapshot for name, snapshot in live_snapshots(ArchiveSource(archive)).items() if name == "ubm"]
    named = f"ubm:{newest.epoch}.{newest.samples_offset}"
    run = subprocess.run(
        [GLIMPSE, "replay", str(archive.path), "--config", str(toml), "--to-snapshot", named],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "A and b are the same, bit by bit" in run.stdout


def test_a_wave_is_taken_back_and_the_ledger_tells_whether_it_is_learned(live, tmp_path):
    """From here on each test changes what is learned."""
    settings, archive, wanted, toml = live
    source = ArchiveSource(archive)
    shown = [batch.shown_at_ms_array.min() for _, batch in read_samples(source, partition_of("ubm", 2), "ubm")]
    start, stop = time_text(int(min(shown)) + 40_000), time_text(int(min(shown)) + 90_000)

    def glimpse(*words: str) -> subprocess.CompletedProcess[str]:
        command = [GLIMPSE, *words, "--config", str(toml)]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    books = glimpse("ledger")
    assert (books.returncode, books.stderr) == (0, ""), books.stdout + books.stderr
    assert "partition 1: " in books.stdout
    first = glimpse("unlearn", "--bucket", "ubm", "--from", start, "--to", stop)
    assert first.returncode == 0, first.stderr
    assert "nothing was changed" in first.stderr
    assert "θ moves by" in first.stdout
    lists = int(re.search(r"ubm: (\d+) lists to take back", first.stdout)[1])
    assert lists > 100
    jobs, reader = Jobs(settings, tmp_path), KafkaParameters(settings)
    try:
        done = glimpse("unlearn", "--bucket", "ubm", "--from", start, "--to", stop, "--yes")
        assert f"{lists} lists were taken back" in done.stdout, done.stderr
        books = glimpse("ledger")  # nobody learns
        assert books.returncode == 1
        words = f"wrong: {lists} lists of samples partition {partition_of('ubm', 2)}, ubm are in no snapshot"
        assert words in books.stderr
        jobs.start("learn")
        model = BUCKETS["ubm"].model()
        for _, batch in read_samples(source, partition_of("ubm", 2), "ubm"):
            for index, at in enumerate(batch.shown_at_ms_array.tolist()):
                if not parse_time(start) <= at < parse_time(stop):
                    model.learn(samples_of(batch)[index : index + 1])

        def unlearned() -> bool:
            reader.catch_up()
            return reader.snapshots["ubm"].sha256 == model.sha256() != wanted["ubm"]

        wait_until(unlearned, timeout_s=60, jobs=jobs)
    finally:
        jobs.close()
        reader.close()
    again = glimpse("unlearn", "--bucket", "ubm", "--from", start, "--to", stop, "--yes")
    assert "ubm: 0 lists to take back" in again.stdout
    books = glimpse("ledger")
    assert books.returncode == 0, books.stderr
    assert sum(int(number) for number in re.findall(r"(\d+) taken back", books.stdout)) == lists
    rounds = re.findall(r"of (\d+) rounds, (\d+) lists below it, 0 refused, 0 waiting", books.stdout)
    assert len(rounds) == len(BUCKETS)
    assert all(learned == there for learned, there in rounds)
    assert sum(int(learned) for learned, _ in rounds) == LISTS - lists


def wave(archive) -> Selection:
    """A range of time in the middle of the run."""
    shown = [
        batch.shown_at_ms_array.min()
        for _, batch in read_samples(ArchiveSource(archive), partition_of("ubm", 2), "ubm")
    ]
    return Selection(int(min(shown)) + 20_000, int(min(shown)) + 30_000)


def test_nothing_is_taken_back_behind_an_open_transaction(live):
    """It would hide what was taken back before, so that a second time took it back twice."""
    settings, archive, _, _ = live
    partition, samples = partition_of("ubm", 2), Topics.of(settings).samples
    producer = KafkaProducer(**settings.kafka_options(), transactional_id=f"{settings.topic_prefix}slow")
    producer.init_transactions()
    source = KafkaSource(settings)
    try:
        producer.begin_transaction()
        producer.send(samples, b"not yet", b"nobody", partition=partition).get(timeout=20)
        with pytest.raises(TransactionOpen, match=rf"a transaction is open on {samples} {partition} of Kafka"):
            source.settle("samples", partition, within_s=0.5)
        before = source.bounds("samples", partition)[1]
        end = threading.Timer(3.0, producer.abort_transaction)
        end.daemon = True
        end.start()
        begun = time.monotonic()
        done = unlearn(settings, bucket="ubm", selection=wave(archive))
        assert time.monotonic() - begun > 2, "it waited"
        assert len(done.lists) > 30
        end.join()
        assert source.bounds("samples", partition)[1] > before
        assert unlearn(settings, bucket="ubm", selection=wave(archive)).lists == []
    finally:
        producer.close(timeout=10)
        source.close()
    [waiting] = audit(KafkaSource(settings), settings).problems  # nobody learns now; all else balances
    assert "are in no snapshot" in waiting


def test_an_interrupted_replay_of_topics_that_grow_goes_on(live, tmp_path):
    settings, _, _, _ = live
    plan, _ = plan_of(KafkaSource(settings), settings)
    wanted = {name: model.sha256() for name, model in replay(plan).models.items()}
    with pytest.raises(Interrupted):
        replay(plan, out=tmp_path, say=lambda passed, total: os.kill(os.getpid(), signal.SIGINT))
    more, _ = traffic(
        50, buckets=list(BUCKETS), start_ms=int(time.time() * 1000), span_ms=9, wait_ms=9, lateness_ms=9, seed=4
    )
    publish(settings.kafka, Topics.of(settings).impressions, more)
    grown, _ = plan_of(KafkaSource(settings), settings)
    done = replay(grown, out=tmp_path)
    assert {name: model.sha256() for name, model in done.models.items()} == wanted
    assert 0 < done.passed < plan.total() == done.plan.total() < grown.total()
    again = replay(grown, out=tmp_path)
    assert (again.passed, again.notes) == (grown.total(), [])
    assert sum(model.rounds for model in again.models.values()) == LISTS + 50
