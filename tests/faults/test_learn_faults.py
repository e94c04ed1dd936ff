"""Learn workers of all five algorithms that are killed and paused: the same bits, versions that only grow."""

import os
import signal
import threading
import time

import pytest
from jobs import Jobs, wait_until
from sample_batches import SampleWriter, all_algorithms

from streams.parameters.job import KafkaParameters


class Traffic(threading.Thread):
    """Writes samples until told to stop; every fifth transaction is aborted."""

    def __init__(self, writer, *, pause_s=0.02):
        super().__init__(daemon=True)
        self.writer, self.pause_s, self.over, self.written = writer, pause_s, threading.Event(), 0
        self.start()

    def run(self):
        while not self.over.wait(self.pause_s):
            self.written += 1
            self.writer.write(lists=5, commit=self.written % 5 != 0)

    def end(self):
        self.over.set()
        self.join(timeout=60)
        assert not self.is_alive()


class Watch:
    """The parameters topic, read as a ranker would: versions only grow."""

    def __init__(self, settings, writer):
        self.reader, self.writer, self.versions = KafkaParameters(settings), writer, {}

    def learned(self):
        self.reader.catch_up(timeout_s=60)
        for name, snapshot in self.reader.snapshots.items():
            assert snapshot.version >= self.versions.get(name, snapshot.version)
            self.versions[name] = snapshot.version
        return {name: one.sha256 for name, one in self.reader.snapshots.items()} == self.writer.hashes()


@pytest.fixture
def learning(settings_for, tmp_path):
    """Makes a writer, two learn workers and a watch over the same topics."""
    opened = []

    def make(**changes):
        settings = settings_for(buckets=all_algorithms(), publish_every_s=0.2, **changes)
        writer, jobs = SampleWriter(settings), Jobs(settings, tmp_path)
        opened.extend([jobs, writer])
        for _ in range(2):
            jobs.start("learn")
        return writer, jobs, Watch(settings, writer)

    yield make
    for one in opened:
        one.close()


def test_five_kills_lose_nothing_and_repeat_nothing(learning):
    writer, jobs, watch = learning()
    traffic = Traffic(writer)
    for _ in range(5):
        time.sleep(2.5)
        jobs.kill(jobs.running[0])
        jobs.start("learn")
        watch.learned()
    traffic.end()
    wait_until(watch.learned, timeout_s=60, jobs=jobs)


def test_a_worker_that_slept_beyond_its_session_is_fenced(learning):
    writer, jobs, watch = learning()
    traffic = Traffic(writer)
    time.sleep(4)
    sleeper = jobs.running[0]
    os.kill(sleeper.pid, signal.SIGSTOP)
    try:
        time.sleep(13)
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
    time.sleep(2)
    traffic.end()
    wait_until(watch.learned, timeout_s=60, jobs=jobs)
    for worker in list(jobs.running):
        assert jobs.terminate(worker, timeout_s=10) == 0
