"""What a learn worker says of itself: /livez, /readyz and /metrics on Faust's web port, and a line each minute."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web
from faust.web.drivers.aiohttp import Web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.learn.job.metrics import MOST_BUCKETS, family
from streams.learn.job.worker import LearnJob, in_thread
from streams.learn.partition_learner import PartitionLearner
from streams.web import STUCK_S, Health, StuckCheck, text_of

NAMED = 8  # buckets in a line
COUNTS = {
    "records": "Sample records read.",
    "lists": "Lists learned or taken back.",
    "rows": "Rows learned or taken back.",
    "dead_letters": "Sample records refused.",
    "repeated": "Sample records read again, and not learned again.",
    "relearned": "Lists learned beside the head of the log, by epochs and buckets that catch up.",
}
TOTALS = {
    "rounds": "Rounds published.",
    "restored": "Times that a partition was restored.",
    "gaps": "Times that records were missing and read again.",
    "online_failures": "Snapshots that the online store did not take at first.",
}


class LearnHealth:
    """Judges a worker: ready is assigned and restored, alive is that offsets move while there is lag.

    ``lagging`` tells whether a partition has records that are not learned yet, ``assigned`` whether the group has given
    this worker its partitions, be they none.
    """

    def __init__(
        self,
        job: LearnJob,
        *,
        lagging: Callable[[int], bool],
        assigned: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job, self._lagging, self._assigned = job, lagging, assigned
        self._stuck = StuckCheck(after_s=STUCK_S + job.settings.publish_every_s, clock=clock)

    def ready(self) -> str | None:
        """Return what is still missing before every assigned partition is learned, or None."""
        if not self._assigned():
            return "the group has not assigned partitions yet"
        waiting = {number: owner for number, owner in list(self._job.owners.items()) if not owner.ready}
        if not waiting:
            return None
        why = next((f", after {owner.refused}" for owner in waiting.values() if owner.refused), "")
        return f"samples partitions {list(waiting)} are being restored{why}"

    def live(self) -> str | None:
        """Return which partition has lag and stands still, or None."""
        owners = list(self._job.owners.items())  # of a partition that is not restored, ``ready`` says why
        positions = {number: position for number, owner in owners if (position := owner.position) is not None}
        self._stuck.note(positions, lagging=self._lagging)
        stuck = self._stuck.stuck()
        return f"samples {stuck}" if stuck else None

    def metrics(self) -> str:
        """Return the worker's figures in Prometheus' text format."""
        return text_of(self._families())

    def _families(self) -> Iterator[Metric]:
        job, watch = self._job, self._job.watch
        owners = dict(job.owners)
        partitions: dict[str, tuple[str, Callable[[int], float | None]]] = {
            "ready": ("1 when an assigned partition is restored and read.", lambda number: owners[number].ready),
            "lagging": ("1 while there are samples to learn.", self._lagging),
            "next_offset": ("Next samples offset to learn.", lambda number: owners[number].position),
        }
        for name, (text, figure) in partitions.items():
            values = {number: figure(number) for number in owners}
            yield family(GaugeMetricFamily, f"glimpse_learn_{name}", text, "partition", values)
        left, held = dict[str, int](), dict[str, bool]()
        for learner in learners_of(job):
            left |= {name: max(0, learner.next_offset - state.stamp) for name, state in list(learner.behind.items())}
            held |= {name: name in learner.held for name in sorted(learner.buckets)[:MOST_BUCKETS]}
        text = "Offsets until an epoch has caught up and serves."
        yield family(GaugeMetricFamily, "glimpse_learn_catching_up_offsets", text, "bucket", left)
        text = "1 when a bucket's settings cannot be learned with; the log says why."
        yield family(GaugeMetricFamily, "glimpse_learn_held", text, "bucket", held)
        counts = dict(watch.counts)
        for name, text in COUNTS.items():
            values = {number: counted[name] for number, counted in counts.items()}
            yield family(CounterMetricFamily, f"glimpse_learn_{name}_total", text, "partition", values)
        totals = watch.totals + Counter(online_failures=job.online_failures)
        for name, text in TOTALS.items():
            yield CounterMetricFamily(f"glimpse_learn_{name}_total", text, totals[name])
        if job.online_up is not None:
            text = "1 when the online store took the last snapshot that was put."
            yield GaugeMetricFamily("glimpse_learn_online_up", text, job.online_up)
        yield from watch.models.families(job.newest)
        yield from watch.seconds.collect()

    async def look(self) -> None:
        """Compute what is slow of the figures in a thread."""
        await in_thread(self._job.watch.models.look, self._job.newest)


class LearnPages(Health):
    """The pages of a worker, on its own event loop, which goes on while what is slow is computed."""

    def __init__(self, health: LearnHealth, *, host: str, port: int) -> None:
        super().__init__(live=health.live, ready=health.ready, metrics=health.metrics, host=host, port=port)
        self._health = health

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return what a check says, or the figures."""
        if request.path == "/metrics":
            await self._health.look()
        return await super().page(request)


class LearnWeb(Web):
    """Faust's web port with our server behind it: a bounded number of clients, none of which may take its time."""

    app: Any

    async def start_server(self) -> None:
        """Begin to answer."""
        conf = self.app.conf
        self._pages = await LearnPages(self.app.health, host=conf.web_bind, port=conf.web_port).open()

    async def stop_server(self) -> None:
        """Stop answering and free the port."""
        await self._pages.cleanup()


class LearnReport:
    """The line that a worker logs each minute: lists and rate since the last one, lag, versions, who catches up.

    ``behind`` tells how many offsets of a partition are not learned yet, at most; None when nobody has told yet.
    """

    def __init__(
        self, job: LearnJob, *, behind: Callable[[int], int | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job, self._behind, self._clock = job, behind, clock
        self._since, self._lists = clock(), self._learned()

    def _learned(self) -> int:
        return sum(counts["lists"] for counts in list(self._job.watch.counts.values()))

    def line(self) -> str | None:
        """Return the line, or None of a worker that has no partitions."""
        now, lists = self._clock(), self._learned()
        elapsed_s, more = max(now - self._since, 1e-9), lists - self._lists
        self._since, self._lists = now, lists
        lags = [self._behind(number) for number in list(self._job.owners)]
        if not lags:
            return None
        lag = "lag not known yet" if None in lags else f"{sum(lag or 0 for lag in lags):,} records behind"
        newest = sorted(self._job.newest.items())
        versions = [f"{name} {snapshot.epoch}.{snapshot.samples_offset}" for name, snapshot in newest]
        named = ", ".join(versions[:NAMED]) + (f" and {len(newest) - NAMED} more" if len(newest) > NAMED else "")
        words = [f"{more:,} lists in {elapsed_s:.0f} s ({more / elapsed_s:,.1f} a second), {lag}"]
        words.append(named or "no snapshot yet")
        catching_up = {
            name: f"epoch {state.bucket.epoch} of {name} has {learner.next_offset - state.stamp:,} offsets to go"
            for learner in learners_of(self._job)
            for name, state in list(learner.behind.items())
        }
        if catching_up:
            words.append(", ".join(catching_up[name] for name in sorted(catching_up)[:NAMED]))
        return "; ".join(words)


def learners_of(job: LearnJob) -> list[PartitionLearner]:
    """Return the learners of the partitions that are restored."""
    return [learner for owner in list(job.owners.values()) if (learner := owner.learner) is not None]
