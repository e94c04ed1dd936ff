"""docker-compose.yml and Dockerfile: what Docker would only tell when it is too late."""

import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from streams.commands.main import cli
from streams.local.kafka import VERSION
from streams.settings import load

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
JOBS = ("topics", "join", "learn", "serve", "lag")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_whole(name):
    service = SERVICES[name]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    if name != "topics":  # which ends by itself
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
    for other, wanted in service.get("depends_on", {}).items():
        needs = {"service_healthy": "healthcheck", "service_completed_successfully": "command"}[wanted["condition"]]
        assert needs in SERVICES[other]
    for volume in service.get("volumes", []):
        source = volume.partition(":")[0]
        assert source in COMPOSE["volumes"] or source.startswith("${GLIMPSE_FOLDER")


def test_servers_keep_their_data_and_kafka_is_the_one_we_test_with():
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{VERSION}"
    [volume] = SERVICES["kafka"]["volumes"]
    assert volume == f"kafka:{SERVICES['kafka']['environment']['KAFKA_LOG_DIRS']}"
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_runs_a_command_with_settings_that_are_accepted(name):
    service = SERVICES[name]
    assert service["command"][0] in typer.main.get_command(cli).commands
    environment = dict(service["environment"])
    mounted = environment.pop("GLIMPSE_CONFIG")
    assert service["volumes"] == [f"${{GLIMPSE_FOLDER:-./examples}}:{Path(mounted).parent}:ro"]
    settings = load(ROOT / "examples" / Path(mounted).name, environ=environment)
    assert settings.kafka == "kafka:19092"
    assert settings.buckets.keys() == {"ubm", "c2ucb", "control"}
    ports = {"join": settings.join_web_port, "learn": settings.web_port}
    for option in {"--metrics-port", "--port"} & set(service["command"]):
        ports[name] = int(service["command"][service["command"].index(option) + 1])
    if name in ports:
        assert service["ports"] == [f"127.0.0.1:{ports[name]}:{ports[name]}"]
        page = "livez" if name == "serve" else "readyz"  # it waits for a catalogue, which somebody has to publish
        assert f"http://127.0.0.1:{ports[name]}/{page}" in service["healthcheck"]["test"][-1]


def test_the_image_is_built_once_before_anybody_needs_it():
    """Four builds of one name at once fail, each taking the name from the others."""
    assert [name for name, service in SERVICES.items() if "build" in service] == ["topics"]
    for name in set(JOBS) - {"topics"}:
        assert SERVICES[name]["image"] == SERVICES["topics"]["image"]
        assert SERVICES[name]["depends_on"]["topics"] == {"condition": "service_completed_successfully"}


def test_no_port_is_taken_twice_and_lag_can_be_scraped():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(set(ports)) == len(ports)
    assert {"127.0.0.1:6066:6066", "127.0.0.1:6067:6067", "127.0.0.1:6069:6069"} <= set(ports)


def test_the_image_is_made_of_files_that_are_there_and_let_in():
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from" not in line:
            copied |= set(line.split()[1:-1])
    assert copied == let_in
    assert [name for name in sorted(copied) if not (ROOT / name).exists()] == []


def test_docker_reads_the_file_where_it_can():
    docker = shutil.which("docker")
    able = docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0
    command = [docker, "compose", "config", "--quiet"] if able else ["cat", "docker-compose.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
