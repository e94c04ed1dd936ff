"""The Faust app: samples in, snapshots out to Kafka and Redis, health on a web port.

Faust gives the worker, the group membership, the agent, the web port and the command line. What makes learning exactly
once is below it: transactions, the progress they carry, and the check that no record is missing before a round.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import faust
from aiokafka.errors import IllegalStateError
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP
from kafka.errors import KafkaError

from streams.broker import GIVE_BACK_S, give_memory_back, keep_freed_memory, log_of_job
from streams.learn.job.health import LearnHealth, LearnReport, LearnWeb
from streams.learn.job.owner import NotAssigned, PartitionOwner
from streams.learn.job.store import Store
from streams.learn.job.transport import LearnConsumer, LearnTransport
from streams.learn.job.worker import LearnJob, in_thread
from streams.logs import SourceAway
from streams.parameters import Hopeless
from streams.settings import Settings, SettingsError, Topics

log = logging.getLogger(__name__)

ROUND_RECORDS = 64  # of up to 512 KB each; a round ends with these or when publish_every has passed
REPORT_EVERY_S = 60.0
CLOSE_WITHIN_S = 5.0  # for rounds that are under way when the worker ends
LEAVE_WITHIN_S = 8.0  # after SIGTERM; a kill is safe at any instant
SEEK_WITHIN_S = 15.0
METADATA_MS = 30_000  # how long partitions that were added, or topics that are back, may stay unseen
FOREVER_S = 1e9  # aiokafka 0.14.0 would not let a worker that has had no partitions for a while join again, for good


class LearnApp(faust.App):
    """A Faust app without tables, whose consumer reads committed records from where the learners are."""

    was_assigned = False

    def __init__(self, settings: Settings) -> None:
        client = settings.kafka_options()
        super().__init__(
            f"{settings.topic_prefix}glimpse-learn",
            broker=[f"kafka://{server}" for server in client["bootstrap_servers"]],
            broker_credentials=credentials(client),
            broker_session_timeout=10.0,  # how long the partitions of a killed worker wait for their next owner
            broker_heartbeat_interval=2.0,
            broker_max_poll_interval=FOREVER_S,
            consumer_auto_offset_reset="none",  # restoring reports what is gone; nothing is skipped
            consumer_max_fetch_size=8 << 20,
            consumer_metadata_max_age_ms=METADATA_MS,
            key_serializer="raw",
            value_serializer="raw",
            stream_buffer_maxsize=ROUND_RECORDS,
            stream_wait_empty=False,  # rounds are whole or undone, so that a rebalance need not wait for one
            topic_allow_declare=False,
            topic_disable_leader=True,
            web_bind=settings.web_host,
            web_host=settings.web_host,
            web_port=settings.web_port or web_port_of(settings),
            worker_redirect_stdouts=False,
            Worker=LearnWorker,
        )
        self.samples = Topics.of(settings).samples
        self.job = LearnJob(settings, seek=self.seek)
        self.health = LearnHealth(self.job, lagging=self.lagging, assigned=lambda: self.was_assigned)

    def _new_transport(self) -> LearnTransport:
        return LearnTransport(self.conf.broker_consumer, self)

    def _new_web(self) -> LearnWeb:
        return LearnWeb(self)

    def _create_directories(self) -> None:
        """Make none: there are no tables, the log is the state."""

    def seek(self, partition: int, offset: int) -> None:
        """Send the reader of a partition to an offset; called from any thread but the event loop's."""
        seeking = self.consumer.seek_wait({TP(self.samples, partition): offset})
        try:
            asyncio.run_coroutine_threadsafe(seeking, self.loop).result(SEEK_WITHIN_S)
        except IllegalStateError as error:
            raise NotAssigned(f"samples partition {partition} is not assigned") from error

    def behind(self, partition: int) -> int | None:
        """Return how many offsets of a partition are not learned yet; a transaction's marker is no record to learn."""
        owner, progress = self.job.owners.get(partition), self._progress(partition)
        if owner is None or progress is None or progress[1] is None or (position := owner.position) is None:
            return None
        return max(0, progress[1] - position) if owner.lags(*progress) else 0

    def lagging(self, partition: int) -> bool:
        """Return whether a partition has records that are not fetched, or not learned yet."""
        owner, progress = self.job.owners.get(partition), self._progress(partition)
        return owner is not None and progress is not None and owner.lags(*progress)

    def _progress(self, partition: int) -> tuple[int | None, int | None] | None:
        return cast(LearnConsumer, self.consumer).progress(TP(self.samples, partition))


class LearnWorker(faust.Worker):
    """A worker that ends within 8 s of a signal, also while Kafka is away and Faust waits to take leave of it.

    Nothing is lost by that: what is not committed yet is learned again by whoever comes next.
    """

    def _install_signal_handlers_unix(self) -> None:
        # Not through the loop: as it closes it gives signals their default back, and one that comes then would kill.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._told_to_stop)
        self.loop.add_signal_handler(signal.SIGUSR1, self._on_sigusr1)  # with one of its own, any signal wakes a loop

    def _told_to_stop(self, number: int, _: object) -> None:
        limit = threading.Timer(LEAVE_WITHIN_S, self._leave)  # from now on, however busy the loop is
        limit.daemon = True
        limit.start()
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._schedule_shutdown, signal.Signals(number))

    def _leave(self) -> None:
        log.warning("Kafka does not answer; leaving without taking leave")
        logging.shutdown()
        os._exit(0)


def create_app(settings: Settings) -> LearnApp:
    """Return the Faust app: samples in, snapshots out."""
    app = LearnApp(settings)
    add_learn(app, settings.publish_every_s)
    report = LearnReport(app.job, behind=app.behind)

    @app.timer(interval=REPORT_EVERY_S)  # type: ignore[untyped-decorator]
    async def say() -> None:
        if (line := report.line()) is not None:
            log.info("%s", line)

    @app.timer(interval=GIVE_BACK_S)  # type: ignore[untyped-decorator]
    async def stay_small() -> None:  # fetched records and answers of the broker come and go, of every size
        await in_thread(give_memory_back)

    return app


def add_learn(app: LearnApp, publish_every_s: float) -> None:
    """Add the agent that learns rounds of samples, and the tasks that maintain partitions and the online store."""
    samples, job = app.topic(app.samples, key_type=bytes, value_type=bytes, acks=False), app.job
    closing: set[asyncio.Future[None]] = set()

    def close(owners: Iterable[PartitionOwner]) -> None:
        for owner in owners:
            closing.add(end := asyncio.ensure_future(in_thread(owner.close)))
            end.add_done_callback(closing.discard)

    @app.agent(samples, name="learn")
    async def learn(events: Any) -> None:
        async for batch in events.take_events(ROUND_RECORDS, within=publish_every_s):
            # The consumer has fed the records to their owners; Faust's events say how far to learn.
            await in_thread(job.checkpoint, {event.message.partition: event.message.offset for event in batch})

    @app.task  # type: ignore[untyped-decorator]
    async def maintain() -> None:
        while not app.should_stop:
            more = await in_thread(job.maintain)
            await asyncio.sleep(0.0 if more else min(0.5, publish_every_s))

    @app.task  # type: ignore[untyped-decorator]
    async def keep_online() -> None:
        await in_thread(job.keep_online)

    async def assigned(sender: Any, /, *assignments: set[TP], **_: Any) -> None:
        mine = sorted(tp.partition for tp in assignments[0] if tp.topic == app.samples)
        log.info("generation %d of the group: samples partitions %s", app.consumer_generation_id, mine)
        close(job.assign(mine))
        app.was_assigned = True

    async def before_shutdown(sender: Any, /, *_: Any, **__: Any) -> None:
        job.stop()
        close(job.owners.values())
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_WITHIN_S)

    app.on_partitions_assigned.connect(assigned)
    app.on_before_shutdown.connect(before_shutdown)


def credentials(client: Mapping[str, Any]) -> SASLCredentials | SSLCredentials | None:
    """Return what Faust must know to be let in, from what kafka-python must know."""
    protocol = client.get("security_protocol", "PLAINTEXT")
    if protocol.startswith("SASL"):
        return SASLCredentials(
            username=client["sasl_plain_username"],
            password=client["sasl_plain_password"],
            mechanism=client["sasl_mechanism"],
            ssl_context=client.get("ssl_context"),
        )
    return SSLCredentials(client["ssl_context"]) if protocol == "SSL" else None


def run_learn(settings: Settings) -> int:
    """Learn until SIGTERM; return the exit code. What cannot work is said in one line before anything starts."""
    keep_freed_memory()
    store = Store(settings)
    try:
        settings = replace(settings, web_port=web_port_of(settings))
        store.check()
    except (Hopeless, SourceAway, SettingsError, KafkaError) as error:
        prefix = f"Kafka at {settings.kafka} does not answer: " if isinstance(error, KafkaError) else ""
        print(f"glimpse learn: {prefix}{error}", file=sys.stderr)
        return 1
    finally:
        store.close()
    log_of_job()
    app = create_app(settings)
    log.info(
        "learning %s; health on http://%s:%d/readyz", ", ".join(settings.buckets), settings.web_host, settings.web_port
    )
    worker = app.Worker(quiet=True, override_logging=False)
    worker.spinner = None  # it writes to the terminal however quiet
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def web_port_of(settings: Settings) -> int:
    """Return the port of the web server, any free one for 0; one that is taken is refused."""
    host, port = settings.web_host, settings.web_port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingsError("web_port", port, f"must be free on {host}, or 0 for any ({error.strerror})") from error
        return int(probe.getsockname()[1])
