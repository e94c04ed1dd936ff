"""The learn job on real Kafka: publish and take over, several workers, poison, aborted samples, refusals at start."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from exposition import value
from jobs import Jobs, wait_until
from kafka import TopicPartition
from sample_batches import SampleWriter, all_algorithms, committed, hashes, learned, make_batch

from schemas.codec import decode, encode
from schemas.records import DeadLetter, Snapshot
from streams.broker import admin, create_topics, partition_of
from streams.local.server import free_port
from streams.parameters import restore_model
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Topics


@pytest.fixture
def started(settings_for, tmp_path):
    """Makes settings of all algorithms with a writer of samples and processes on them."""
    opened = []

    def make(**changes):
        changes.setdefault("buckets", all_algorithms())
        changes.setdefault("publish_every_s", 0.3)
        settings = settings_for(**changes)
        writer, jobs, reader = SampleWriter(settings), Jobs(settings, tmp_path), KafkaParameters(settings)
        opened.extend([jobs, writer, reader])
        return settings, writer, jobs, reader

    yield make
    for one in opened:
        one.close()


def log_of(worker, jobs):
    """What a worker has printed so far."""
    return jobs.logs[worker.pid].read_text()


def test_samples_become_snapshots_bit_by_bit_and_aborted_ones_never(started):
    settings, writer, jobs, reader = started()
    writer.write()
    writer.write(commit=False)
    worker = jobs.start("learn")
    for _ in range(5):
        writer.write()
        writer.write(commit=False)
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    for name, snapshot in reader.snapshots.items():
        model = restore_model(settings.buckets[name], snapshot)
        np.testing.assert_array_equal(snapshot.theta_array, model.theta)
        assert snapshot.samples_partition == partition_of(name, settings.partitions)
        assert snapshot.samples_offset == reader.progress[snapshot.samples_partition].next_offset
    while worker.poll() is None:  # told again and again, also when its event loop is gone
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    jobs.running.remove(worker)
    assert worker.returncode == 0


def test_two_workers_share_and_take_over(started):
    settings, writer, jobs, reader = started()
    first = jobs.start("learn")
    writer.write()
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    second = jobs.start("learn")
    wait_until(lambda: "is restored" in log_of(second, jobs), timeout_s=60, jobs=jobs)
    for _ in range(10):
        writer.write(lists=5)
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    restored = [line.split()[5] for line in log_of(first, jobs).splitlines() if "is restored" in line]
    assert sorted(restored) == ["0", "1", "2", "3"], "what stays is not restored again"
    assert jobs.terminate(first, timeout_s=30) == 0
    for _ in range(10):
        writer.write(lists=5)
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    assert jobs.terminate(second, timeout_s=30) == 0
    versions = {}
    for record in committed(settings, Topics.of(settings).parameters):
        snapshot = decode(record.value)
        if isinstance(snapshot, Snapshot):
            assert snapshot.version > versions.get(snapshot.bucket, (0, 0))
            versions[snapshot.bucket] = snapshot.version
    with admin(settings) as client:
        group = f"{settings.topic_prefix}glimpse-learn"
        assert not any(client.list_group_offsets(group).get(group, {})), "nothing is committed through the group"


def test_poison_becomes_dead_letters_and_the_stream_goes_on(started):
    settings, writer, jobs, reader = started()
    wrong_bucket = encode(make_batch("nobody", 2, seed=1)[0])
    poison = [b"", b"\xc3\x01 not avro at all", None, wrong_bucket, encode(make_batch("ubm", 2, seed=1, dim=5)[0])]
    for raw in poison:
        writer.write(lists=2)
        writer.write_raw("ubm", raw)
    writer.write()
    jobs.start("learn")
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    letters = [decode(record.value, DeadLetter) for record in committed(settings, Topics.of(settings).dead_letters)]
    assert [letter.value for letter in sorted(letters, key=lambda letter: letter.offset)] == poison
    assert {(letter.topic, letter.partition) for letter in letters} == {
        (Topics.of(settings).samples, partition_of("ubm", 4))
    }
    assert all(letter.reason for letter in letters)


def test_a_changed_bucket_is_held_alone_and_alone_in_the_settings_refused_in_one_line(started, tmp_path):
    settings, writer, jobs, reader = started(partitions=1)
    worker = jobs.start("learn")
    writer.write()
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    assert jobs.terminate(worker, timeout_s=30) == 0

    changed = {"full": replace(settings.buckets["full"], ridge=9.0)}
    said = "bucket 'full' is set to ridge 9.0 (snapshot: 4.0)"
    (tmp_path / "alone").mkdir()
    alone = Jobs(replace(settings, buckets=changed), tmp_path / "alone")
    assert alone.start("learn").wait(60) != 0
    _, line = alone.printed().splitlines()[1:]  # where it writes, and what is wrong
    assert said in line
    assert "glimpse rollout --bucket full" in line

    (tmp_path / "changed").mkdir()
    other = Jobs(replace(settings, buckets={**settings.buckets, **changed}), tmp_path / "changed")
    before = writer.hashes()["full"]
    writer.write()
    held = {**writer.hashes(), "full": before}
    try:
        worker = other.start("learn")
        wait_until(lambda: hashes(reader) == held, timeout_s=60, jobs=other)
        assert said in other.printed()
        assert other.terminate(worker, timeout_s=30) == 0
    finally:
        other.close()

    raised = {**settings.buckets, "full": replace(settings.buckets["full"], ridge=9.0, epoch=2)}
    (tmp_path / "raised").mkdir()
    again = Jobs(replace(settings, buckets=raised), tmp_path / "raised")
    try:
        again.start("learn")
        fresh = raised["full"].model()
        for samples in writer.samples["full"]:
            fresh.learn(samples)
        writer.models["full"] = fresh
        wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=again)
        assert reader.snapshots["full"].epoch == 2
    finally:
        again.close()


def test_a_missing_topic_is_one_line(started, tmp_path):
    settings, _, _, _ = started()
    (tmp_path / "elsewhere").mkdir()
    jobs = Jobs(replace(settings, topic_prefix="nowhere-"), tmp_path / "elsewhere")
    assert jobs.start("learn").wait(60) != 0
    _, line = jobs.printed().splitlines()[1:]
    assert "no topic 'nowhere-samples'" in line
    assert "glimpse topics" in line


def test_health_pages(started, tmp_path):
    settings, writer, _, reader = started()
    port = free_port()
    (tmp_path / "web").mkdir()
    jobs = Jobs(replace(settings, web_port=port), tmp_path / "web")

    def page(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    try:
        jobs.start("learn")
        writer.write()
        wait_until(lambda: page("/readyz") == (200, "ok\n"), timeout_s=60, jobs=jobs)
        wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
        assert page("/livez") == (200, "ok\n")
        with ExitStack() as held:  # connections that are held open are such as Kafka cannot have
            for _ in range(300):
                client = held.enter_context(socket.create_connection(("127.0.0.1", port), 20))
                client.send(b"GET /livez HTTP/1.1\r\nX-Drip: x")
            assert page("/livez") == (200, "ok\n")
            [worker] = jobs.running
            assert len(list(Path(f"/proc/{worker.pid}/fd").iterdir())) < 250
            client.send(b"x")
            assert client.recv(1) == b"", "cut off"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=20) as answer:
            assert answer.headers["Server"] is None
        figures = page("/metrics")[1]
        offset = reader.progress[partition_of("ubm", 4)].next_offset
        assert value(figures, "glimpse_learn_next_offset", partition=str(partition_of("ubm", 4))) == offset
        assert value(figures, "glimpse_snapshot_rounds", bucket="ubm") == reader.snapshots["ubm"].rounds
        lagging = "glimpse_learn_lagging"
        wait_until(lambda: value(page("/metrics")[1], lagging, partition="0") == 0, timeout_s=60, jobs=jobs)
        assert (other := Jobs(replace(settings, web_port=port), tmp_path / "web")).start("learn").wait(60) != 0
        assert f"web_port = {port}: must be free" in other.printed()
    finally:
        jobs.close()


def test_samples_that_are_deleted_before_they_are_learned_are_told_and_learning_goes_on(started):
    settings, writer, jobs, reader = started(
        buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)}, partitions=1
    )
    worker = jobs.start("learn")
    writer.write()
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    before = reader.progress[0].next_offset
    learned_to = {before: writer.models["main"].state()}
    worker.send_signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            writer.write()
            learned_to[max(learned_to) + 2] = writer.models["main"].state()  # each transaction has a marker
        end = max(learned_to) + 1
        with admin(settings) as client:
            client.delete_records({TopicPartition(Topics.of(settings).samples, 0): end})
    finally:
        worker.send_signal(signal.SIGCONT)
    told = re.compile(rf"offsets (\d+) to {end} were deleted before they were learned")
    wait_until(lambda: told.search(log_of(worker, jobs)) is not None, timeout_s=60, jobs=jobs)
    # What the broker had sent before it was deleted, an answer that the frozen worker had asked for, is learned.
    writer.models["main"].restore(learned_to[int(told.search(log_of(worker, jobs))[1])])
    writer.write()
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)


def test_samples_made_anew_under_a_worker_are_not_learned_into_what_is_there(started):
    settings, writer, jobs, reader = started(partitions=1)
    worker = jobs.start("learn")
    writer.write()
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    before = hashes(reader)
    worker.send_signal(signal.SIGSTOP)  # so that it does not see that they are gone for a while
    with admin(settings) as client:
        client.delete_topics([writer.topic])
        wait_until(lambda: writer.topic not in client.list_topics(), timeout_s=60, every_s=0.05)
    create_topics(settings)
    writer.again()
    for _ in range(3):  # so that there is something at the offset where the worker stands
        writer.write()
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: log_of(worker, jobs).count("samples_topic_id") >= len(before), timeout_s=60, jobs=jobs)
    time.sleep(2)
    assert hashes(reader) == before
    assert jobs.terminate(worker, timeout_s=30) == 0


def test_the_faust_command_runs_the_same_app(started, tmp_path):
    _, writer, jobs, reader = started()
    writer.write()
    port = free_port()
    faust = Path(sys.executable).with_name("faust")
    command = [str(faust), "-A", "streams.app", "worker", "--web-port", str(port), "--loglevel", "warn"]
    with (tmp_path / "faust.log").open("wb") as log:
        worker = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "GLIMPSE_CONFIG": str(jobs.toml)}, stdout=log, stderr=log
        )
    jobs.running.append(worker)
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    assert jobs.terminate(worker, timeout_s=30) == 0
    assert not list(tmp_path.glob("*-data"))  # no tables, so no folders for them
