"""Real servers for the tests: one Kafka and one Redis per session, and more of them for tests that break one."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from streams.broker import create_topics
from streams.local.kafka import LocalKafka, cache, locked
from streams.local.server import LocalRedis
from streams.settings import Bucket, Settings

PACKAGES = {
    "java": "openjdk-17-jre-headless",
    "mvn": "maven",
    "redis-server": "redis-server",
    "openssl": "openssl",
    "chromium": "chromium",
}


@pytest.fixture(scope="session")
def programs() -> None:
    """The servers' programs; as root on Debian (CI), what is missing is installed."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    with one_at_a_time():
        missing = [package for name, package in PACKAGES.items() if shutil.which(name) is None]
        if missing:
            subprocess.run(["apt-get", "update", "-q"], check=False)
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", *missing], check=True, env=quiet)


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' checker; on Debian it is unpacked from its package, which would start a server if installed."""
    there = shutil.which("promtool")
    if there is not None:
        return there
    program = cache() / "promtool"
    with one_at_a_time():
        if not program.exists() and shutil.which("apt-get") and shutil.which("dpkg"):
            unpack_promtool(program)
    assert program.exists(), "no promtool on the PATH, and none to be had: install it, on Debian from prometheus"
    return str(program)


def unpack_promtool(program: Path) -> None:
    with TemporaryDirectory(dir=program.parent) as folder:
        download = ["apt-get", "download", "-q", "prometheus"]
        if subprocess.run(download, cwd=folder, check=False).returncode and os.geteuid() == 0:
            subprocess.run(["apt-get", "update", "-q"], check=False)
            subprocess.run(download, cwd=folder, check=False)
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), folder], check=True)
            (Path(folder) / "usr" / "bin" / "promtool").replace(program)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of the processes that share the tests, only one installs."""
    cache().mkdir(parents=True, exist_ok=True)
    with locked(cache() / "install.lock"):
        yield


@pytest.fixture(scope="session")
def kafka(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real broker that all tests of the session share."""
    broker = LocalKafka(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def strict_broker(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker that knows access rules, all open at first, and compacts at once."""
    broker = LocalKafka(tmp_path_factory.mktemp("strict-kafka"))
    broker.config |= {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "log.cleaner.backoff.ms": "200",
    }
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def redis_url(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Redis that all tests of the session share."""
    server = LocalRedis(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@pytest.fixture
def new_broker(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalKafka]]:
    """Makes started brokers of the test's own, to stop(), kill() and start() again."""
    brokers: list[LocalKafka] = []

    def start(config: dict[str, str] | None = None, **options: Any) -> LocalKafka:
        broker = LocalKafka(tmp_path_factory.mktemp("own-kafka"), **options)
        broker.config.update(config or {})
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    for broker in brokers:
        broker.kill()


@pytest.fixture
def new_redis(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalRedis]]:
    """Makes started Redis servers of the test's own."""
    servers: list[LocalRedis] = []

    def start(**options: Any) -> LocalRedis:
        server = LocalRedis(tmp_path_factory.mktemp("own-redis"), **options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def settings_for(request: pytest.FixtureRequest) -> Callable[..., Settings]:
    """Makes Settings with topics of their own, already created.

    On the session's broker unless ``kafka=`` names another one; without Redis unless ``redis=`` is given; time stamps
    are the records' own (CreateTime), since tests move time by them. The join's client is the one that every
    installation has, unless ``TEST_KAFKA_CLIENT`` names another one for all tests that do not choose.
    """

    def make(**changes: Any) -> Settings:
        if "kafka" not in changes:
            changes["kafka"] = request.getfixturevalue("kafka")
        changes.setdefault("buckets", {"main": Bucket("main", algorithm="c2ucb", dim=10, positions=12)})
        changes.setdefault("topic_prefix", f"t{uuid.uuid4().hex[:12]}-")
        changes.setdefault("timestamps", "CreateTime")
        changes.setdefault("kafka_client", os.environ.get("TEST_KAFKA_CLIENT", "kafka-python"))
        changes.setdefault("web_port", 0)
        changes.setdefault("join_web_port", 0)
        settings = Settings(**changes)
        create_topics(settings)
        return settings

    return make
