"""The join among kills, freezes and a broker that goes away: the same net, nothing lost and nothing twice."""

import signal
import threading
import time

import pytest
from jobs import Jobs, wait_until
from joined import Net, commits, lists_wanted
from traffic import publish, traffic

from streams.settings import Bucket
from streams.topics import Topics

BUCKETS = {name: Bucket(name, "c2ucb", 10, 12) for name in ("a", "b", "c")}
SLICES = 10


class Stream:
    """Traffic that flows for about ``seconds``, an hour old, in slices of the two logs."""

    def __init__(self, settings, lists, *, seconds, old_s=3_600, seed=5):
        times = {"start_ms": int((time.time() - old_s) * 1000), "span_ms": 60_000}
        self.logs = traffic(lists, buckets=list(BUCKETS), **times, wait_ms=3_000, lateness_ms=9_000, seed=seed)
        self.wanted = lists_wanted(*self.logs)
        self.settings, self.pause_s = settings, seconds / SLICES
        self.thread = threading.Thread(target=self._flow)
        self.flowing = True

    def _flow(self):
        topics = Topics.of(self.settings)
        for number in range(SLICES):
            for topic, log in zip((topics.impressions, topics.clicks), self.logs, strict=True):
                part = slice(len(log) * number // SLICES, len(log) * (number + 1) // SLICES)
                publish(self.settings.kafka, topic, log[part])
            time.sleep(self.pause_s)
        self.flowing = False


@pytest.fixture
def begin(settings_for, tmp_path):
    """Makes settings, worker processes, traffic that flows and a reader of the net."""
    opened = []

    def make(lists, *, seconds, **changes):
        settings = settings_for(buckets=BUCKETS, wait_s=3.0, lateness_s=9.0, partitions=2, **changes)
        jobs, net, stream = Jobs(settings, tmp_path), Net(settings), Stream(settings, lists, seconds=seconds)
        opened.extend([jobs.close, net.close, stream.thread.join])
        return settings, jobs, net, stream

    yield make
    for close in opened:
        close()


def finish(settings, jobs, net, stream, *, timeout_s):
    """Wait for the wanted net, see that it stays, and that the ledger tells the same."""
    stream.thread.join()
    wait_until(lambda: net.now() == stream.wanted, timeout_s=timeout_s, jobs=jobs)
    time.sleep(1)
    assert net.now() == stream.wanted
    ledgers = [commit.ledger for commit in commits(settings)]
    assert all(ledger.balanced for ledger in ledgers)
    assert sum(ledger.lists for ledger in ledgers) == len(stream.wanted)
    assert sum(ledger.impressions for ledger in ledgers) == len(stream.logs[0])
    assert sum(ledger.clicks for ledger in ledgers) == len(stream.logs[1])


def test_kills_of_two_workers_change_nothing(begin):
    settings, jobs, net, stream = begin(8_000, seconds=10)
    workers = [jobs.start("join", "--from", "earliest") for _ in range(2)]
    stream.thread.start()
    wait_until(lambda: net.now() != {}, timeout_s=60, jobs=jobs)
    for number in range(5):
        jobs.kill(workers[number % 2])
        workers[number % 2] = jobs.start("join", "--from", "earliest")
        time.sleep(1.5)
    finish(settings, jobs, net, stream, timeout_s=90)


def test_a_worker_that_froze_beyond_its_session_is_fenced(begin):
    settings, jobs, net, stream = begin(6_000, seconds=18)
    workers = [jobs.start("join", "--from", "earliest") for _ in range(2)]
    stream.thread.start()
    wait_until(lambda: net.now() != {}, timeout_s=60, jobs=jobs)
    workers[0].send_signal(signal.SIGSTOP)
    time.sleep(13)  # the session lasts 10 s
    workers[0].send_signal(signal.SIGCONT)
    finish(settings, jobs, net, stream, timeout_s=60)


def test_a_broker_that_stops_or_dies_is_survived(begin, new_broker):
    broker = new_broker()
    settings, jobs, net, stream = begin(4_000, seconds=1, kafka=broker.bootstrap)
    jobs.start("join", "--from", "earliest")
    stream.thread.start()
    stream.thread.join()
    wait_until(lambda: net.now() != {}, timeout_s=60, jobs=jobs)
    broker.stop()
    time.sleep(6)
    broker.start()
    more = Stream(settings, 4_000, seconds=1, old_s=3_000, seed=6)
    more.thread.start()
    more.thread.join()
    broker.kill()
    time.sleep(1)
    broker.start()
    wanted = stream.wanted | more.wanted
    wait_until(lambda: net.now() == wanted, timeout_s=90, jobs=jobs)
    assert all(commit.ledger.balanced for commit in commits(settings))


def test_sigterm_drains_commits_and_ends_well(begin):
    settings, jobs, net, stream = begin(8_000, seconds=6)
    worker = jobs.start("join", "--from", "earliest")
    stream.thread.start()
    wait_until(lambda: net.now() != {}, timeout_s=60, jobs=jobs)
    assert stream.flowing
    started = time.monotonic()
    assert jobs.terminate(worker, timeout_s=10) == 0
    assert time.monotonic() - started < 10
    jobs.start("join")  # there is a commit, so it needs no --from
    finish(settings, jobs, net, stream, timeout_s=60)
