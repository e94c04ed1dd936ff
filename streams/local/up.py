"""A Kafka and a Redis for development in one folder: started by ``glimpse up``, ended by ``glimpse down``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from streams.local.kafka import LocalKafka, locked, program
from streams.local.redis import LocalRedis
from streams.local.server import LocalServerError, free_port, listening

USUAL_PORTS = {"kafka": 9092, "redis": 6379}  # with these, nothing needs to be exported
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the servers are."""

    kafka: str
    redis: str

    def exports(self) -> str:
        """Return the lines that tell a shell."""
        return f"export GLIMPSE_KAFKA={self.kafka}\nexport GLIMPSE_REDIS={self.redis}"


def start_servers(folder: Path, *, environ: Mapping[str, str], say: Say) -> Addresses:
    """Start what does not run yet, and return where all is; a server named in the environment is used as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        kafka, redis = servers(folder)
        given = {"kafka": environ.get("GLIMPSE_KAFKA"), "redis": environ.get("GLIMPSE_REDIS")}
        addresses = {"kafka": kafka.bootstrap, "redis": redis.url}
        for server in (kafka, redis):
            address = given[server.name]
            if address and address != addresses[server.name]:
                if not reachable(address):
                    name = f"GLIMPSE_{server.name.upper()}"
                    raise LocalServerError(f"{name} = {address} does not answer; unset {name} to have one started")
                say(f"{server.name}: {address} is used, as GLIMPSE_{server.name.upper()} says")
                addresses[server.name] = address
            elif server.pid is not None:
                say(f"{server.name}: runs already on port {server.port}")
            else:
                say(f"{server.name}: starting …")
                server.start()
                say(f"{server.name}: runs on port {server.port}, its data and log are in {server.folder}")
    return Addresses(**addresses)


def stop_servers(folder: Path, *, delete: bool, say: Say) -> None:
    """Stop what ``up`` started in ``folder``, and with ``delete`` remove the data too."""
    if not folder.exists():
        say(f"nothing was started in {folder}")
        return
    with locked(folder / "lock"):
        for server in servers(folder):
            running = server.pid is not None
            server.stop()
            say(f"{server.name}: {'stopped' if running else 'did not run'}")
    if delete:
        shutil.rmtree(folder)
        say(f"{folder} is deleted")


def servers(folder: Path) -> tuple[LocalKafka, LocalRedis]:
    """Return the servers of ``folder``, on the ports that they had before."""
    file = folder / "ports.json"
    if file.exists():
        ports = json.loads(file.read_text())
    else:
        ports = {name: free_port() if listening(port) else port for name, port in USUAL_PORTS.items()}
        file.write_text(json.dumps(ports))
    kafka = LocalKafka(folder / "kafka", port=ports["kafka"])
    return kafka, LocalRedis(folder / "redis", port=ports["redis"], keep=True)


def reachable(address: str) -> bool:
    """Return whether a server of ``address`` (host:port, several with commas, or a URL) takes connections."""
    for server in address.rpartition("//")[2].split(","):
        host, _, port = server.partition("/")[0].rpartition("@")[2].rpartition(":")
        if port.isdecimal() and listening(int(port), host=host.strip("[]")):
            return True
    return False


def compose(*words: str, say: Say) -> None:
    """Run ``docker compose`` on the docker-compose.yml of this folder."""
    if not Path("docker-compose.yml").exists():
        raise LocalServerError("there is no docker-compose.yml here; run this in Glimpse's own folder")
    command = [program("docker", package="docker.io docker-compose"), "compose", *words]
    say(" ".join(["docker", *command[1:]]))
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        words_of_docker = done.stderr.strip().splitlines() or ["it said nothing"]
        raise LocalServerError(f"docker compose failed with code {done.returncode}: {words_of_docker[-1]}")
