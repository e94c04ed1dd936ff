"""Real join and learn processes for the tests, started from a glimpse.toml as users start them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

from streams.settings import Bucket, Settings

GLIMPSE = str(Path(sys.executable).with_name("glimpse"))


def write_toml(settings: Settings, file: Path) -> Path:
    """Write settings as a glimpse.toml that says the same."""
    lines = []
    for part in fields(Settings):
        value = getattr(settings, part.name)
        if part.name not in ("buckets", "split", "registry") and value is not None:
            lines.append(f"{part.name} = {json.dumps(value)}")
    chosen = {key: value for key, value in asdict(settings.split).items() if value is not None}
    lines += ["[split]", *(f"{key} = {json.dumps(value)}" for key, value in chosen.items())]
    lines += ["[registry]", *(f"{number} = {json.dumps(schema)}" for number, schema in settings.registry.items())]
    for name, bucket in settings.buckets.items():
        lines.append(f"\n[buckets.{json.dumps(name)}]")
        for part in fields(Bucket):
            value = getattr(bucket, part.name)
            if part.name not in ("name", "options") and value is not None:
                lines.append(f"{part.name} = {json.dumps(value.tolist() if hasattr(value, 'tolist') else value)}")
        lines += [f"{key} = {value}" for key, value in bucket.options.items()]
    file.write_text("\n".join(lines) + "\n")
    return file


class Jobs:
    """Worker processes of one test; all that are left are killed at its end."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.toml = write_toml(settings, folder / "glimpse.toml")
        self.running: list[subprocess.Popen[bytes]] = []
        self.logs: dict[int, Path] = {}  # what each process prints, by its id

    def start(self, *command: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start `glimpse COMMAND`; what it prints goes to a file beside the settings."""
        printed = self.folder / f"{len(self.logs) + 1:02}-{command[0]}.log"
        with printed.open("wb") as log:
            process = subprocess.Popen(
                [GLIMPSE, *command],
                cwd=self.folder,
                env={**os.environ, "GLIMPSE_CONFIG": str(self.toml), **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self.running.append(process)
        self.logs[process.pid] = printed
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill -9, as a machine that loses power would."""
        process.kill()
        process.wait()
        self.running.remove(process)

    def terminate(self, process: subprocess.Popen[bytes], timeout_s: float) -> int:
        """SIGTERM, and return the exit code."""
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still there after {timeout_s} s:\n{self.printed()}") from error
        self.running.remove(process)
        return code

    def check(self) -> None:
        """Fail with its log when a worker has ended by itself."""
        for process in self.running:
            assert process.poll() is None, f"{process.args} ended with {process.poll()}:\n{self.printed()}"

    def printed(self) -> str:
        """The last lines of every log."""
        tails = [(log.name, log.read_text(errors="replace")[-2000:]) for log in sorted(self.folder.glob("*.log"))]
        return "\n".join(f"--- {name}\n{text}" for name, text in tails)

    def close(self) -> None:
        """Kill whatever still runs."""
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()


def wait_until(done: Callable[[], bool], *, timeout_s: float, jobs: Jobs | None = None, every_s: float = 0.2) -> None:
    """Wait until ``done``; a worker that ends by itself, or the time limit, fails the test with the logs."""
    give_up_at = time.monotonic() + timeout_s
    while not done():
        if jobs is not None:
            jobs.check()
        assert time.monotonic() < give_up_at, f"not done after {timeout_s} s\n{jobs.printed() if jobs else ''}"
        time.sleep(every_s)
