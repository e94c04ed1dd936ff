"""Learn workers under traffic that are killed in pairs: who learned what, and how often the group rebalanced."""

import random
import re
import signal
import threading
import time
from datetime import datetime

from jobs import Jobs, wait_until
from sample_batches import SampleWriter

from streams.parameters.job import KafkaParameters

ASSIGNED = re.compile(r"^(\S+ \S+) INFO generation (\d+) of the group", re.MULTILINE)


class Traffic(threading.Thread):
    """Writes samples until told to stop; every fifth transaction is aborted."""

    def __init__(self, writer: SampleWriter, *, pause_s: float = 0.02) -> None:
        super().__init__(daemon=True)
        self.writer, self.pause_s, self.over, self.written = writer, pause_s, threading.Event(), 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(self.pause_s):
            self.written += 1
            self.writer.write(lists=5, commit=self.written % 5 != 0)

    def end(self) -> None:
        self.over.set()
        self.join(timeout=60)
        assert not self.is_alive()


class Watch:
    """The parameters topic, read as a ranker would: versions only grow."""

    def __init__(self, settings, writer: SampleWriter) -> None:
        self.reader, self.writer, self.versions = KafkaParameters(settings), writer, {}

    def look(self) -> dict[str, tuple[int, int]]:
        """Return the newest version of each bucket."""
        self.reader.catch_up(timeout_s=60)
        for name, snapshot in self.reader.snapshots.items():
            assert snapshot.version >= self.versions.get(name, snapshot.version)
            self.versions[name] = snapshot.version
        return dict(self.versions)

    def learned(self) -> bool:
        """Return whether every bucket is what the golden run in this process has come to."""
        self.look()
        return {name: one.sha256 for name, one in self.reader.snapshots.items()} == self.writer.hashes()

    def moved(self, since: dict[str, tuple[int, int]]) -> bool:
        """Return whether every bucket has a newer snapshot than it had then."""
        now = self.look()
        return all(now.get(name, (0, -1)) > since.get(name, (0, -1)) for name in self.writer.models)


def generations(jobs: Jobs, *, since: float, until: float) -> set[int]:
    """Return the generations of the group that workers came to know between two times."""
    found = set()
    for log in jobs.folder.glob("*-learn.log"):
        for stamp, number in ASSIGNED.findall(log.read_text(errors="replace")):
            if since <= datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp() < until:
                found.add(int(number))
    return found


def kill_in_pairs(jobs: Jobs, watch: Watch, *, rounds: int, quiet_s: float, seed: int, within_s: float) -> None:
    """Kill both workers and start two others 0–5 s apart, again and again; then the group must come to rest.

    At most two rebalances after the last start, none from 20 s on, and learning goes on within ``within_s``.
    """
    dice = random.Random(seed)
    traffic, before = Traffic(watch.writer), watch.look()
    try:
        wait_until(lambda: watch.moved(before), timeout_s=60, jobs=jobs)
        for _ in range(rounds):
            for worker in list(jobs.running):
                jobs.kill(worker)
            wait_until(lambda: not watch.learned(), timeout_s=60)  # there is work, and nobody does it
            for _ in range(2):
                time.sleep(dice.uniform(0, 5))
                last = jobs.start("learn")
            started, before = time.time(), watch.look()
            time.sleep(dice.uniform(0, 8))  # sometimes while the group still waits for the dead, sometimes after
        # A busy machine may take long to start Python; from then on the times hold.
        wait_until(lambda: "health on" in jobs.logs[last.pid].read_text(), timeout_s=60, jobs=jobs)
        up = time.time()
        wait_until(lambda: watch.moved(before), timeout_s=within_s, jobs=jobs)
        print(f"learning goes on {time.time() - up:.1f} s after the last worker was up")
        time.sleep(max(0.0, up + quiet_s - time.time()))
    finally:
        traffic.end()
    assert len(generations(jobs, since=started, until=up + 20)) <= 2, jobs.printed()
    assert not generations(jobs, since=up + 20, until=up + quiet_s), jobs.printed()
    wait_until(watch.learned, timeout_s=60, jobs=jobs)


def sleep_and_wake(jobs: Jobs, watch: Watch, *, sleep_s: float) -> None:
    """Freeze a worker that learns for longer than its session; others go on, and waking it changes no bit."""
    wait_until(lambda: all("is restored" in log.read_text() for log in jobs.logs.values()), timeout_s=60, jobs=jobs)
    traffic, before = Traffic(watch.writer), watch.look()
    try:
        wait_until(lambda: watch.moved(before), timeout_s=60, jobs=jobs)
        sleeper = jobs.running[0]
        sleeper.send_signal(signal.SIGSTOP)
        try:
            before, wake_at = watch.look(), time.monotonic() + sleep_s
            wait_until(lambda: not watch.learned(), timeout_s=60)  # there is work
            wait_until(lambda: watch.moved(before), timeout_s=60)  # the other worker has taken over
            time.sleep(max(0.0, wake_at - time.monotonic()))
        finally:
            sleeper.send_signal(signal.SIGCONT)
        before = watch.look()
        wait_until(lambda: watch.moved(before), timeout_s=60, jobs=jobs)
        time.sleep(5)  # what it had in hand when it froze is offered again, and refused
    finally:
        traffic.end()
    wait_until(watch.learned, timeout_s=60, jobs=jobs)
