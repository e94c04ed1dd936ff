"""Join and learn processes that can be killed, frozen and started again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from streams.join.job import run_join
from streams.learn.job import run_learn
from streams.local import end_with_parent
from streams.settings import Settings

KINDS = ("join", "learn")


class Workers:
    """Some processes of each kind; what they print goes to files in ``folder``."""

    def __init__(self, settings: Settings, folder: Path, *, each: int) -> None:
        self.settings, self.folder, self.each = settings, folder, each
        self.ended = 0  # by themselves
        self._spawn = multiprocessing.get_context("spawn")
        self._started = 0
        self._running: dict[str, list[BaseProcess]] = {kind: [] for kind in KINDS}
        self.tend()

    def tend(self, *, but: str = "") -> None:
        """Start what is missing, as whoever watches workers would; those of the kind ``but`` are left alone."""
        for kind, workers in self._running.items():
            gone = [worker for worker in workers if worker.exitcode is not None]
            self.ended += len(gone)
            for worker in gone:
                workers.remove(worker)
            while kind != but and len(workers) < self.each:
                workers.append(self._start(kind))

    def kill(self, kind: str) -> int:
        """Kill the oldest worker of a kind (kill -9) and return its process id."""
        worker = self._running[kind].pop(0)
        worker.kill()
        worker.join()
        return worker.pid or 0

    def freeze(self, kind: str) -> int:
        """Stop the oldest worker of a kind where it stands, and return its process id."""
        pid = self._running[kind][0].pid or 0
        os.kill(pid, signal.SIGSTOP)
        return pid

    def thaw(self, pid: int) -> None:
        """Let a frozen worker go on."""
        os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End all of them."""
        workers = [worker for kind in KINDS for worker in self._running[kind]]
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(12)
            worker.kill()
            worker.join()

    def _start(self, kind: str) -> BaseProcess:
        self._started += 1
        log = self.folder / f"{self._started:02}-{kind}.log"
        worker = self._spawn.Process(target=be_worker, args=(kind, self.settings, log), name=kind, daemon=True)
        worker.start()
        return worker


def be_worker(kind: str, settings: Settings, log: Path) -> None:
    """Be one of the processes."""
    end_with_parent()
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.exit(run_join(settings, start="earliest") if kind == "join" else run_learn(settings))
