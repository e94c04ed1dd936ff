"""A Kafka broker for development from Maven Central's jars (KRaft, one node, no ZooKeeper, no Docker)."""

from __future__ import annotations

import base64
import fcntl
import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from kafka.errors import KafkaError

from streams.broker import admin_client
from streams.local.server import LocalServer, LocalServerError, free_port, listening, program
from streams.settings import Settings

# Not 4.3.0 or 4.3.1, which lose the ends of transactions (KAFKA-20734; tests/streams/local/test_transaction_ends.py).
VERSION = "4.2.1"
UNNOTED = "4.3.1"  # what made the folders that do not tell
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>glimpse</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
  </dependencies>
</project>
"""  # without the second one a broker that cannot start does not say why
LOGGING = """rootLogger.level=warn
rootLogger.appenderRef.stdout.ref=stdout
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d{HH:mm:ss.SSS} %-5p %c{1}: %m %throwable{short.message}%n
"""


class LocalKafka(LocalServer):
    """One Kafka broker that is its own controller, small and quick to start; ``config`` may be changed before that."""

    name = "kafka"

    def __init__(self, folder: Path, *, port: int | None = None, heap_mb: int = 384) -> None:
        super().__init__(folder, port=port)
        self.bootstrap = f"127.0.0.1:{self.port}"  # the address to give to clients
        self.heap_mb = heap_mb
        controller = free_port()
        self.config = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "8",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "3000",  # a killed broker is let in again only after its old session ended
            "broker.heartbeat.interval.ms": "500",
            "group.min.session.timeout.ms": "1000",
            "controlled.shutdown.enable": "false",  # there is no other broker to hand its partitions to
            "log.cleaner.dedupe.buffer.size": str(8 << 20),  # 128 MiB of the heap otherwise
            "num.network.threads": "2",
            "num.io.threads": "4",
            "num.recovery.threads.per.data.dir": "2",
        }

    def command(self) -> Sequence[str]:
        """Return the java command of the broker."""
        return [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]

    def answers(self) -> bool:
        """Return whether the broker is its cluster's controller and answers requests; another at its port is not it."""
        if not listening(self.port):
            return False
        settings = Settings(kafka=self.bootstrap)
        try:
            with closing(admin_client(settings, bootstrap_timeout_ms=5_000, request_timeout_ms=5_000)) as admin:
                cluster = admin.describe_cluster()
        except KafkaError:
            return False
        ours = (self.folder / "data" / "meta.properties").read_text()
        return len(cluster["brokers"]) > 0 and f"cluster.id={cluster['cluster_id']}\n" in ours

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Fetch the jars and format the log once each, then start the broker and return when it answers."""
        if self.pid is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        made_by = self.folder / "kafka.version"
        if (self.folder / "data" / "meta.properties").exists():
            version = made_by.read_text() if made_by.exists() else UNNOTED
            if numbers(version) > numbers(VERSION):
                raise LocalServerError(
                    f"{self.folder} was made by Kafka {version}, and {VERSION}, which is run now, cannot read it; "
                    "begin anew, without its topics: glimpse down --delete, or remove the folder"
                )
        else:
            made_by.write_text(VERSION)
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # a leading dash would be read as an option
            run([*self._java(), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties)])
        super().start(timeout_s=timeout_s)

    def _java(self) -> list[str]:
        folder = jars()
        return [
            program("java", package="openjdk-17-jre-headless"),
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            "-cp",
            f"{folder}/*",
        ]


def numbers(version: str) -> list[int]:
    """Return a version's numbers: 4.10 is newer than 4.9."""
    return [int(part) for part in version.split(".")]


def jars() -> Path:
    """Return the folder with the broker's jars, fetched from Maven Central by the first who asks."""
    home = cache()
    ready = home / f"kafka-{VERSION}"
    if ready.exists():
        return ready
    maven = program("mvn", package="maven")
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "kafka.lock"):
        if ready.exists():  # another process was first
            return ready
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            work = Path(scratch)
            pom = work / "pom.xml"
            pom.write_text(POM.format(version=VERSION))
            run([maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DoutputDirectory=jars"])
            (work / "jars" / "log4j2.properties").write_text(LOGGING)
            (work / "jars").rename(ready)  # whole or not at all
    return ready


def cache() -> Path:
    """Return the folder for what is fetched once: ``GLIMPSE_CACHE``, else glimpse in the user's cache folder."""
    chosen = os.environ.get("GLIMPSE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glimpse"


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold ``file``'s lock, which the kernel frees when the holder dies."""
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str]) -> None:
    """Run a helper program to its end; what it said is in the error if it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
        raise LocalServerError(f"{Path(command[0]).name} failed with code {done.returncode}: {words[0]}")
