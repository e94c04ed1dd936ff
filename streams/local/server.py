"""A server on 127.0.0.1 as a child process: started, waited for, stopped by its process id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path


class LocalServerError(RuntimeError):
    """A local server that could not be started, with the reason and what to do."""


class LocalServer(ABC):
    """A server process of this machine that keeps all it writes in one folder.

    It outlives the Python process that started it, so that ``glimpse down`` can stop what ``glimpse up`` started: its
    process id is in ``folder/<name>.pid``. Started again in the same folder it has the same port and the same data.
    """

    name = "server"

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running server, or None."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        return running_pid(self.folder / f"{self.name}.pid", marker=self.marker)

    @property
    def marker(self) -> str:
        """What the server's command line has and no stranger's has."""
        return str(self.folder)

    @property
    def log(self) -> Path:
        """Where the server's own words are."""
        return self.folder / f"{self.name}.log"

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command line."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server can be used, not only reached."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the server."""
        return os.environ

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the server and return when it answers."""
        if self.pid is not None:
            return
        if listening(self.port):
            raise LocalServerError(f"port {self.port} of 127.0.0.1 is taken by another program; {self.name} needs it")
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self.command()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
            )
        (self.folder / f"{self.name}.pid").write_text(f"{self._process.pid}\n")
        deadline = time.monotonic() + timeout_s
        while not self.answers():
            if self._process.poll() is not None:
                raise LocalServerError(f"{self.name} ended with code {self._process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                self.kill()
                raise LocalServerError(f"{self.name} did not answer within {timeout_s:g} s: {self._last_words()}")
            time.sleep(0.05)

    def stop(self, *, timeout_s: float = 20.0) -> None:
        """Ask the server to end, and end it when it does not."""
        self._end(signal.SIGTERM, timeout_s)
        self._end(signal.SIGKILL, 10.0)

    def kill(self) -> None:
        """End the server at once (kill -9): what it had not written is gone."""
        self._end(signal.SIGKILL, 10.0)

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)
        give_up_at = time.monotonic() + 2
        # a busy machine stops its threads one by one, and any of them may still answer (seen on Linux, told in /proc)
        while any(state(task) != "T" for task in Path(f"/proc/{self.pid}/task").glob("*/stat")):
            if time.monotonic() > give_up_at:
                return
            time.sleep(0.001)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)

    def _end(self, number: int, timeout_s: float) -> None:
        self._signal(number)
        deadline = time.monotonic() + timeout_s
        while self.pid is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.pid is None:
            self._process = None
            (self.folder / f"{self.name}.pid").unlink(missing_ok=True)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return f"{lines[-1] if lines else 'it said nothing'} (see {self.log})"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on.

    It lies below the range that the kernel hands to outgoing connections: while a server is down, a client that keeps
    trying could otherwise be given the server's own port, and the server could not come back.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LocalServerError("no free port between 20000 and 32000 on 127.0.0.1; end some servers")


def listening(port: int, *, host: str = "127.0.0.1") -> bool:
    """Return whether somebody accepts connections on ``port``."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def running_pid(file: Path, *, marker: str) -> int | None:
    """Return the process id in ``file`` if that process runs and names ``marker`` in its command line.

    A process id is given again to others after a reboot; the marker keeps us from ending a stranger.
    """
    try:
        pid = int(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if marker in command_line(pid) else None


def command_line(pid: int) -> str:
    """Return the command line of a process, empty if it has ended."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def state(stat: Path) -> str:
    """Return the letter for what a thread does, T when it is stopped or has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"
