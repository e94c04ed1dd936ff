"""The path of a new user, from first traffic to a fitted table in force and back: a script of commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs import GLIMPSE

TOML = """
wait_s = 2
lateness_s = 3
web_port = 0
join_web_port = 0

[buckets.ubm]
algorithm = "ubm-linucb"
examination = "default"
dim = 6
positions = 8
alpha = 0.1

[buckets.c2ucb]
algorithm = "c2ucb"
dim = 6
positions = 8
alpha = 0.1
"""


class NewUser:
    """Somebody with a folder, a glimpse.toml and two terminals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "glimpse.toml").write_text(TOML)
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("GLIMPSE_")}

    def run(self, *words: str, timeout_s: float = 120) -> str:
        """Type a command, and return what it prints."""
        done = subprocess.run(
            [GLIMPSE, *words], cwd=self.folder, env=self._environ, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, f"glimpse {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def leave_running(self, *words: str) -> subprocess.Popen[bytes]:
        """Type a command that runs on in its own terminal."""
        with (self.folder / f"{words[0]}.log").open("wb") as log:
            return subprocess.Popen(
                [GLIMPSE, *words], cwd=self.folder, env=self._environ, stdout=log, stderr=subprocess.STDOUT
            )

    def shown(self, until: Callable[[dict[str, Any]], bool], timeout_s: float = 90) -> dict[str, Any]:
        """Look every second at what `glimpse show` says of each bucket, until it is what was waited for."""
        give_up_at = time.monotonic() + timeout_s
        while True:
            found = {row["bucket"]: row for row in map(json.loads, self.run("show", "--json").splitlines())}
            if until(found):
                return found
            assert time.monotonic() < give_up_at, found
            time.sleep(1)


def walk(folder: Path, *, lists: int, rate: float) -> dict[str, Any]:
    """Walk the path with so much traffic, and return what was seen on it."""
    user, seen = NewUser(folder), dict[str, Any]()
    worker = None
    try:
        user.run("up")
        user.run("topics")
        worker = user.leave_running("worker", "--from", "earliest")
        begun = time.monotonic()
        user.run("produce", "--lists", str(lists), "--rate", str(rate), "--candidates", "40", timeout_s=600)
        seen["produced_s"] = time.monotonic() - begun
        seen["first"] = user.shown(lambda rows: sum(row["lists"] for row in rows.values()) == lists)
        seen["fit"] = user.run("fit", "kafka", "--bucket", "ubm", "--out", "table.json")
        asked = ("rollout", "--bucket", "ubm", "--examination", "table.json")
        seen["plan"] = user.run(*asked)
        user.run(*asked, "--yes")
        seen["rolled out"] = user.shown(lambda rows: rows["ubm"]["version"].startswith("2."))
        seen["page"] = user.run("show", "ubm")
        judged = ("evaluate", "kafka", "--policy", "kafka", "--bucket", "ubm", "--log-bucket", "ubm", "--json")
        seen["evaluated"] = json.loads(user.run(*judged, "--examination", "table.json"))
        user.run("rollout", "--bucket", "ubm", "--back")
        seen["back"] = user.shown(lambda rows: rows["ubm"]["version"].startswith("3."))
        worker.send_signal(signal.SIGTERM)
        seen["ended"] = worker.wait(20)
    finally:
        if worker is not None and worker.poll() is None:
            worker.kill()
        user.run("down", "--delete")
    return seen


def check(seen: dict[str, Any], folder: Path, *, lists: int) -> None:
    """Hold what was seen against what the path promises."""
    first, after, back = (seen[name] for name in ("first", "rolled out", "back"))
    table = json.loads((folder / "table.json").read_text())
    assert first["ubm"]["version"].startswith("1.")
    assert "nothing was written; the same with --yes rolls it out" in seen["plan"]
    assert first["ubm"]["table_sha256"] != table["sha256"] == after["ubm"]["table_sha256"]
    assert table["sha256"] in seen["page"]
    assert max(max(row) for row in table["examination"]) == 1.0
    assert sum(row["lists"] for row in after.values()) == lists, "the new epoch knows as much"
    assert after["c2ucb"]["version"][:2] == back["c2ucb"]["version"][:2] == "1.", "the other bucket went on"
    for name in ("table_sha256", "sha256", "lists"):
        assert back["ubm"][name] == first["ubm"][name], "as it was before, bit by bit"
    evaluated = seen["evaluated"]
    assert evaluated["policy"].startswith("ubm@2.")
    assert evaluated["assumes"] == "", "each list says what it was chosen from"
    estimate = evaluated["estimates"][0]
    assert estimate["estimator"] == "ubm-linear"
    logged = evaluated["logged"]["ctr_sum"]["value"]
    assert logged < estimate["value"], f"its lists are better than random ones: {logged}, {estimate}"
    assert estimate["low"] < estimate["value"] < estimate["high"]
    assert seen["ended"] == 0
