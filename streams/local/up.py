"""A Kafka and a Redis for development in one folder: started by ``glimpse up``, ended by ``glimpse down``."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from schemas.json_text import parse_json
from streams.local.kafka import LocalKafka, cache, locked
from streams.local.server import LocalRedis, LocalServerError, free_port, listening, program
from streams.settings import Settings, write_running

USUAL_PORTS = {"kafka": 9092, "redis": 6379}  # with these, nothing needs to be exported
PORTS = "ports.json"  # makes a folder ours
WRITTEN = ("kafka", "redis", PORTS, "lock")  # what down leaves in the folder of up
Say = Callable[[str], None]


def exports(addresses: Mapping[str, str]) -> str:
    """Return the lines that tell a shell where the servers are."""
    return "\n".join(f"export GLIMPSE_{name.upper()}={shlex.quote(at)}" for name, at in addresses.items())


def start_servers(folder: Path, *, environ: Mapping[str, str], say: Say) -> dict[str, str]:
    """Start what does not run yet, and return all addresses; a server named in the environment is used as it is.

    A folder with files of somebody else is refused, since ``down`` could not tell theirs from ours.
    """
    given = {"kafka": environ.get("GLIMPSE_KAFKA"), "redis": environ.get("GLIMPSE_REDIS")}
    # an address that no command would take is refused here too, its password unseen
    Settings(kafka=given["kafka"] or f"127.0.0.1:{USUAL_PORTS['kafka']}", redis=given["redis"] or None)
    if folder.exists() and known_ports(folder) is None and any(folder.iterdir()):
        raise LocalServerError(f"{folder} holds files that glimpse up has not made; take another --dir")
    folder.mkdir(parents=True, exist_ok=True)
    cache().mkdir(parents=True, exist_ok=True)
    # One at a time on this machine: a port that is free stays so until who has found it listens there.
    with locked(folder / "lock"), locked(cache() / "up.lock"):
        kafka, redis = servers(folder)
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
        write_running(folder, addresses)
    return addresses


def stop_servers(folder: Path, *, delete: bool, say: Say) -> None:
    """Stop what ``up`` started in ``folder``, and with ``delete`` remove what it wrote there, and nothing else."""
    if known_ports(folder) is None:
        say(f"nothing was started in {folder}")
        return
    with locked(folder / "lock"):
        for server in servers(folder):
            running = server.pid is not None
            server.stop()
            say(f"{server.name}: {'stopped' if running else 'did not run'}")
        write_running(folder, None)
        if delete:
            delete_written(folder, say)


def delete_written(folder: Path, say: Say) -> None:
    """Remove what ``up`` wrote, its servers' data before their ports, and the folder if that leaves it empty."""
    for name in WRITTEN:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    left = sorted(path.name for path in folder.iterdir())
    if left:
        say(f"what glimpse up wrote in {folder} is deleted; {left[0]!r} is not ours, so the folder stays")
    else:
        folder.rmdir()
        say(f"{folder} is deleted")


def known_ports(folder: Path) -> dict[str, int] | None:
    """Return the ports of the servers of ``folder``, or None when ``up`` never was there."""
    try:
        ports = parse_json((folder / PORTS).read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(ports, dict) and ports.keys() == USUAL_PORTS.keys()
    return ports if whole and all(type(port) is int and 0 < port < 65_536 for port in ports.values()) else None


def servers(folder: Path) -> tuple[LocalKafka, LocalRedis]:
    """Return the servers of ``folder``, on the ports that they had before."""
    ports = known_ports(folder)
    if ports is None:
        ports = {name: free_port() if listening(port) else port for name, port in USUAL_PORTS.items()}
        (folder / PORTS).write_text(json.dumps(ports))
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
