"""Three buckets, their traffic, and what the parameters topic must say in the end."""

import threading
import time

import numpy as np
from jobs import wait_until
from traffic import DIM, K, examination, learned, publish, reference, traffic

from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Settings, Topics

TABLES = {"ubm-a": examination(1), "ubm-b": examination(2), "plain": np.ones((K, K))}
BUCKETS = {
    "ubm-a": Bucket("ubm-a", "ubm-linucb", DIM, K, TABLES["ubm-a"], ridge="safe"),
    "ubm-b": Bucket("ubm-b", "ubm-linucb", DIM, K, TABLES["ubm-b"], ridge="safe"),
    "plain": Bucket("plain", "c2ucb", DIM, K),
}
WAIT_S = LATENESS_S = 10.0


def events(lists: int, seed: int):
    """An hour-old stretch of 200 s, so that the tail closes at once: the impressions log and the clicks log."""
    return traffic(
        lists,
        buckets=list(BUCKETS),
        start_ms=int(time.time() * 1000) - 3_600_000,
        span_ms=200_000,
        wait_ms=int(WAIT_S * 1000),
        lateness_ms=int(LATENESS_S * 1000),
        seed=seed,
    )


class Feed:
    """Publishes both logs in the background, in small pieces over some seconds, each log in its order.

    The last piece waits for ``finish``, so that work remains until then however slow the machine is.
    """

    def __init__(self, settings: Settings, impressions, clicks, *, pieces: int, every_s: float) -> None:
        self._settings, self._logs = settings, (impressions, clicks)
        self._pieces, self._every_s = pieces, every_s
        self.error: BaseException | None = None
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Let the last piece be written when its time has come."""
        self._finish.set()

    @property
    def ended(self) -> bool:
        """Whether everything was written; raises what went wrong."""
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    def _run(self) -> None:
        topics = Topics.of(self._settings)
        try:
            for piece in range(self._pieces):
                if piece == self._pieces - 1:
                    self._finish.wait()
                for topic, log in zip((topics.impressions, topics.clicks), self._logs, strict=True):
                    size = -(-len(log) // self._pieces)
                    publish(self._settings.kafka, topic, log[piece * size : (piece + 1) * size])
                time.sleep(self._every_s)
        except BaseException as error:
            self.error = error


class Learned:
    """What the parameters topic says now, beside what the raw events say it must be."""

    def __init__(self, settings: Settings, impressions, clicks) -> None:
        self.reader = KafkaParameters(settings)
        self.expected = reference(impressions, clicks, TABLES)
        self.versions: dict[str, tuple[int, int]] = {}

    def lists(self) -> int:
        """How many lists are learned so far; versions must have only grown."""
        self.reader.catch_up(timeout_s=60)
        for bucket, snapshot in self.reader.snapshots.items():
            assert snapshot.version >= self.versions.get(bucket, snapshot.version)
            self.versions[bucket] = snapshot.version
        return sum(snapshot.rounds for snapshot in self.reader.snapshots.values())

    def complete(self) -> bool:
        """Whether every bucket is, bit by bit, what it must be in the end."""
        self.lists()
        return self.differences() == []

    def differences(self) -> list[str]:
        """In words, where a bucket is not what it must be."""
        found = []
        for bucket, (gram, response, lists) in self.expected.items():
            snapshot = self.reader.snapshots.get(bucket)
            if snapshot is None:
                found.append(f"{bucket}: no snapshot")
                continue
            has_gram, has_response, has_lists = learned({array.name: array.array for array in snapshot.state})
            if has_lists != lists:
                found.append(f"{bucket}: {has_lists} lists of {lists}")
            elif not (np.array_equal(has_gram, gram) and np.array_equal(has_response, response)):
                found.append(f"{bucket}: all lists, other sums")
        return found

    def close(self) -> None:
        """Let go of the broker."""
        self.reader.close()


def exactly_once(pipeline, *, lists: int) -> None:
    """Write everything at once to running workers: the bits of the reference, and nothing comes twice afterwards."""
    settings, jobs, _ = pipeline
    impressions, clicks = events(lists, seed=1)
    result = Learned(settings, impressions, clicks)
    topics = Topics.of(settings)
    try:
        publish(settings.kafka, topics.impressions, impressions)
        publish(settings.kafka, topics.clicks, clicks)
        wait_until(result.complete, timeout_s=120, jobs=jobs)
        time.sleep(2)
        assert result.complete(), result.differences()
    finally:
        result.close()
