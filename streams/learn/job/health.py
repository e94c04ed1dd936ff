"""Health pages of a learn worker, on Faust's web port: /livez, /readyz, /metrics."""

import time
from collections.abc import Callable, Iterator

from aiohttp import web
from faust.types import AppT
from faust.web.drivers.aiohttp import Web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.learn.job.metrics import MOST_BUCKETS
from streams.learn.job.rounds import Learning
from streams.learn.job.threads import in_thread
from streams.web import STUCK_S, Health, StuckCheck, text_of


class LearnHealth:
    """Judges a worker: ready is assigned and restored, alive is that offsets move while there is lag.

    Parameters
    ----------
    lagging
        Tells whether a partition has records that are not learned yet.
    assigned
        Tells whether the group has given this worker its partitions, be they none.
    """

    def __init__(
        self,
        learning: Learning,
        *,
        lagging: Callable[[int], bool],
        assigned: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._learning, self._lagging, self._assigned = learning, lagging, assigned
        self._stuck = StuckCheck(after_s=STUCK_S + learning.settings.publish_every_s, clock=clock)

    def ready(self) -> str | None:
        """Return what is still missing before every assigned partition is learned, or None."""
        if not self._assigned():
            return "the group has not assigned partitions yet"
        waiting = {number: place for number, place in self._learning.places.items() if not place.ready}
        if not waiting:
            return None
        why = next((f", after {place.trouble}" for place in waiting.values() if place.trouble), "")
        return f"samples partitions {list(waiting)} are being restored{why}"

    def live(self) -> str | None:
        """Return which partition has lag and stands still, or None."""
        offsets = self._learning.offsets()
        self._stuck.note({number: offsets.get(number) for number in self._learning.places}, lagging=self._lagging)
        stuck = self._stuck.stuck()
        return f"samples {stuck}" if stuck else None

    def metrics(self) -> str:
        """Return the worker's figures in Prometheus' text format."""
        return text_of(self._families())

    def _families(self) -> Iterator[Metric]:
        learning, labels = self._learning, ["partition"]
        ready = GaugeMetricFamily(
            "glimpse_learn_ready", "1 when an assigned partition is restored and read.", labels=labels
        )
        behind = GaugeMetricFamily("glimpse_learn_lagging", "1 while there are samples to learn.", labels=labels)
        next_offset = GaugeMetricFamily("glimpse_learn_next_offset", "Next samples offset to learn.", labels=labels)
        for number, place in learning.places.items():
            ready.add_metric([str(number)], place.ready)
            behind.add_metric([str(number)], self._lagging(number))
        for number, offset in learning.offsets().items():
            next_offset.add_metric([str(number)], offset)
        yield from (ready, behind, next_offset)
        yield from self._epochs()
        counts = {
            "records": "Sample records read.",
            "lists": "Lists learned or taken back.",
            "rows": "Rows learned or taken back.",
            "dead_letters": "Sample records refused.",
            "repeated": "Sample records read again, and not learned again.",
            "relearned": "Lists learned beside the head of the log, by epochs and buckets that catch up.",
        }
        for name, text in counts.items():
            counter = CounterMetricFamily(f"glimpse_learn_{name}_total", text, labels=labels)
            for number, counted in learning.counts.items():
                counter.add_metric([str(number)], getattr(counted, name))
            yield counter
        totals = {
            "rounds": ("Rounds published.", learning.rounds),
            "restored": ("Times that a partition was restored.", learning.restored),
            "gaps": ("Times that records were missing and read again.", learning.gaps),
            "online_failures": ("Snapshots that the online store did not take at first.", learning.online.failures),
        }
        for name, (text, total) in totals.items():
            yield CounterMetricFamily(f"glimpse_learn_{name}_total", text, total)
        if learning.online.up is not None:
            text = "1 when the online store took the last snapshot that was put."
            yield GaugeMetricFamily("glimpse_learn_online_up", text, learning.online.up)
        yield from learning.models.families(learning.newest)
        yield from learning.seconds.collect()

    def _epochs(self) -> Iterator[Metric]:
        """Yield what is not learned at the head of the log: who catches up, and who is held."""
        left = GaugeMetricFamily(
            "glimpse_learn_catching_up_offsets", "Offsets until an epoch has caught up and serves.", labels=["bucket"]
        )
        held = GaugeMetricFamily(
            "glimpse_learn_held",
            "1 when a bucket's settings cannot be learned with; the log says why.",
            labels=["bucket"],
        )
        for place in list(self._learning.places.values()):
            learner = place.owner.learner
            if learner is None:
                continue
            for name, state in list(learner.behind.items()):
                left.add_metric([name], max(0, learner.next_offset - state.stamp))
            for name in sorted(learner.buckets)[:MOST_BUCKETS]:
                held.add_metric([name], name in learner.held)
        yield from (left, held)

    async def look(self) -> None:
        """Compute what is slow of the figures in a thread."""
        await in_thread(self._learning.models.look, self._learning.newest)


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

    def __init__(self, app: AppT, *, health: Callable[[], LearnHealth]) -> None:
        super().__init__(app)
        self._health = health

    async def start_server(self) -> None:
        """Begin to answer."""
        self._pages = await LearnPages(self._health(), host=self.app.conf.web_bind, port=self.app.conf.web_port).open()

    async def stop_server(self) -> None:
        """Stop answering and free the port."""
        await self._pages.cleanup()
