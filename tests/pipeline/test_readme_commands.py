"""The commands of the README, run in its order on a real broker and a real Redis."""

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import time
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from jobs import GLIMPSE, wait_until

from streams.local import free_port
from streams.parameters.job import KafkaParameters
from streams.settings import load

ROOT = Path(__file__).parent.parent.parent
RUNS_ON = ("worker", "traffic", "serve", "compare --watch", "dashboard", "lag --watch")  # until told to stop


def commands():
    """Every `glimpse` or `cp` line of the README's shell blocks, without its comment."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)).splitlines()
    found = [line.partition("#")[0].strip() for line in lines]
    assert sum(line.startswith("glimpse") for line in found) >= 14
    return [line for line in found if line.startswith(("glimpse ", "cp "))]


@pytest.fixture
def place(tmp_path, kafka, redis_url):
    """An empty folder with the repository's examples, and the environment that `glimpse up` would print."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ports = {"GLIMPSE_WEB_PORT": "0", "GLIMPSE_JOIN_WEB_PORT": "0"}
    prefix = {"GLIMPSE_TOPIC_PREFIX": f"r{uuid.uuid4().hex[:8]}-", "GLIMPSE_WAIT_S": "2", "GLIMPSE_LATENESS_S": "3"}
    environ = {**os.environ, "GLIMPSE_KAFKA": kafka, "GLIMPSE_REDIS": redis_url, **ports, **prefix}
    random = np.random.default_rng(0)
    with gzip.open(tmp_path / "logs.jsonl.gz", "wt") as log:
        for page in range(600):
            shown = random.permutation(12)
            contexts = random.uniform(-0.3, 0.3, (12, 10)).round(3).tolist()
            clicks = (random.random(12) < 0.3 / np.arange(1, 13)).astype(int).tolist()
            line = {"session": f"s{page}", "query": f"q{page % 3}", "items": shown.tolist(), "clicks": clicks}
            line["contexts"] = np.array(contexts)[shown].tolist() if page % 3 else contexts
            log.write(json.dumps(line) + "\n")
    return tmp_path, environ


@pytest.mark.timeout(800)
def test_the_readmes_commands_do_what_it_says(place):
    folder, environ = place
    running, port = [], free_port()
    settings = None
    try:
        for line in commands():
            command = line.removeprefix("glimpse ")
            if command.startswith(("experiment", "drill")):
                command += " --help"  # minutes; tests/streams/offline and tests/faults/test_drill.py play small ones
            if settings is not None and "--to-snapshot" in command:
                command = re.sub(r"ubm:[\d.]+", f"ubm:{newest_version(settings)}", command)
            if command.startswith(("traffic", "serve")):  # on a port that is free, and not for a minute
                command += f" --port {port}" if command.startswith("serve") else f" --url http://127.0.0.1:{port}"
                command += " --seconds 3" * command.startswith("traffic")
            if command.startswith("produce"):
                command = command.replace("--rate 300", "--rate 3000")  # 3 s instead of 30
            words = shlex.split(command) if line.startswith("cp ") else [GLIMPSE, *shlex.split(command)]
            if command.startswith(RUNS_ON):
                running.append(subprocess.Popen(words, cwd=folder, env=environ, stdout=subprocess.DEVNULL))
                time.sleep(3)
                assert running[-1].poll() is None, line
                if command.startswith("traffic"):
                    wait_until((folder / "shop.npz").exists, timeout_s=60)
                if command.startswith("serve"):
                    assert running.pop(-2).wait(60) == 0  # users came, and went
                continue
            done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            if command.startswith("produce"):
                settings = load(folder / "glimpse.toml", environ)
                wait_until(partial(has_learned, settings, 2000), timeout_s=60)
        worker, *watching = running
        for process in watching:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        for process in running:
            process.kill()


def has_learned(settings, lists):
    parameters = KafkaParameters(settings)
    parameters.catch_up()
    parameters.close()
    return sum(snapshot.rounds for snapshot in parameters.snapshots.values()) >= lists


def newest_version(settings):
    parameters = KafkaParameters(settings)
    parameters.catch_up()
    parameters.close()
    epoch, offset = parameters.snapshots["ubm"].version
    return f"{epoch}.{offset}"
