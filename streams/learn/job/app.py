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
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import faust
from aiokafka.errors import IllegalStateError
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP
from kafka.errors import KafkaError

from streams.broker import GIVE_BACK_S, give_memory_back, keep_freed_memory, log_of_job
from streams.learn.job.health import LearnHealth, LearnWeb
from streams.learn.job.report import LearnReport
from streams.learn.job.rounds import Delivered, Learning, NotAssigned
from streams.learn.job.store import Store
from streams.learn.job.threads import in_thread
from streams.learn.job.transport import LearnConsumer, LearnTransport, trail_of
from streams.logs import LogRecord, SourceAway
from streams.parameters import Hopeless
from streams.settings import Settings, SettingsError, Topics

log = logging.getLogger(__name__)

ROUND_RECORDS = 64  # of up to 512 KB each; a round ends with these or when publish_every has passed
REPORT_EVERY_S = 60.0
LEAVE_WITHIN_S = 8.0  # after SIGTERM; a kill is safe at any instant
METADATA_MS = 30_000  # how long partitions that were added, or topics that are back, may stay unseen
FOREVER_S = 1e9  # aiokafka would make a worker that has had no partitions for a while leave its group, for good


class LearnApp(faust.App):
    """A Faust app without tables, whose consumer reads committed records from where the learners are."""

    learning: Learning
    health: LearnHealth
    was_assigned = False

    @property
    def samples_consumer(self) -> LearnConsumer:
        """The consumer, by what it can do beyond Faust's."""
        return cast(LearnConsumer, self.consumer)

    def learned_offsets(self) -> Mapping[int, int]:
        """Return the next offset to learn of each partition that is restored."""
        return self.learning.offsets()

    def _new_transport(self) -> LearnTransport:
        return LearnTransport(self.conf.broker_consumer, self)

    def _new_web(self) -> LearnWeb:
        return LearnWeb(self, health=lambda: self.health)

    def _create_directories(self) -> None:
        """Make none: there are no tables, the log is the state."""


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
    client = settings.kafka_options()
    app = LearnApp(
        f"{settings.topic_prefix}glimpse-learn",
        broker=[f"kafka://{server}" for server in client["bootstrap_servers"]],
        broker_credentials=credentials(client),
        broker_session_timeout=10.0,  # how long the partitions of a killed worker wait for their next owner
        broker_heartbeat_interval=2.0,
        broker_max_poll_interval=FOREVER_S,
        consumer_auto_offset_reset="none",  # what is gone is told by who restores, never passed over
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
    samples = app.topic(Topics.of(settings).samples, key_type=bytes, value_type=bytes, acks=False)
    add_learn(app, samples, settings)
    add_report(app, LearnReport(app.learning, behind=partial(behind, app, samples)))
    add_memory(app)
    app.health = LearnHealth(app.learning, lagging=partial(lagging, app, samples), assigned=lambda: app.was_assigned)
    return app


def add_learn(app: LearnApp, samples: Any, settings: Settings) -> None:
    """Add the agent that learns rounds of samples, and the tasks that keep partitions restored and Redis filled."""
    topic = samples.get_topic_name()

    async def seek(partition: int, offset: int) -> int:
        try:
            return await app.samples_consumer.seek_numbered(TP(topic, partition), offset)
        except (IllegalStateError, LookupError) as error:
            raise NotAssigned(f"samples partition {partition} is not assigned") from error

    app.learning = Learning(settings, seek=seek)

    @app.agent(samples, name="learn")
    async def learn(events: Any) -> None:
        async for batch in events.take_events(ROUND_RECORDS, within=settings.publish_every_s):
            await app.learning.take([delivered(event.message) for event in batch])

    @app.task  # type: ignore[untyped-decorator]
    async def keep_restored() -> None:
        while not app.should_stop:
            await app.learning.tend()
            await app.learning.take_up()
            behind = await app.learning.catch_up()
            await asyncio.sleep(0.0 if behind else min(0.5, settings.publish_every_s))

    @app.task  # type: ignore[untyped-decorator]
    async def keep_online() -> None:
        await app.learning.online.keep()

    async def assigned(sender: Any, /, *places: set[TP], **_: Any) -> None:
        mine = sorted(place.partition for place in places[0] if place.topic == topic)
        log.info("generation %d of the group: samples partitions %s", app.consumer_generation_id, mine)
        app.learning.assign(mine)
        app.was_assigned = True

    async def before_shutdown(sender: Any, /, *_: Any, **__: Any) -> None:
        await app.learning.stop()

    app.on_partitions_assigned.connect(assigned)
    app.on_before_shutdown.connect(before_shutdown)


def add_report(app: LearnApp, report: LearnReport) -> None:
    """Add the line that is logged each minute."""

    @app.timer(interval=REPORT_EVERY_S)  # type: ignore[untyped-decorator]
    async def say() -> None:
        line = report.line()
        if line is not None:
            log.info("%s", line)


def add_memory(app: LearnApp) -> None:
    """Add the giving back of what was freed: fetched records and answers of the broker come and go, of every size."""

    @app.timer(interval=GIVE_BACK_S)  # type: ignore[untyped-decorator]
    async def stay_small() -> None:
        await in_thread(give_memory_back)


def behind(app: LearnApp, samples: Any, partition: int) -> int | None:
    """Return how many offsets of a partition are not learned yet; a transaction's marker is no record to learn."""
    try:
        end = app.samples_consumer.stable_end(TP(samples.get_topic_name(), partition))
    except LookupError:
        return None
    learned_to = app.learned_offsets().get(partition)  # once: a thread may drop the partition meanwhile
    if end is None or learned_to is None:
        return None
    return max(0, end - learned_to) if lagging(app, samples, partition) else 0


def lagging(app: LearnApp, samples: Any, partition: int) -> bool:
    """Return whether a partition has records that are not fetched, or not learned yet."""
    place = TP(samples.get_topic_name(), partition)
    try:
        fetched_to = app.samples_consumer.trail(place).offset
        return app.samples_consumer.waiting(place) or fetched_to > app.learned_offsets().get(partition, fetched_to)
    except LookupError:
        return False


def delivered(message: Any) -> Delivered:
    """Return a message of Faust as what is learned."""
    trail = trail_of(message.headers)
    record = LogRecord(message.offset, trail.stamp_ms, message.key, message.value)
    return Delivered(message.partition, trail.seek, trail.offset, record)


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
        place = f"Kafka at {settings.kafka} does not answer: " if isinstance(error, KafkaError) else ""
        print(f"glimpse learn: {place}{error}", file=sys.stderr)
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
