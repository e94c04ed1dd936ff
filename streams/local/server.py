"""Servers on 127.0.0.1 as child processes: started, waited for, stopped by their process id; Redis is one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import redis


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
        self.log = self.folder / f"{self.name}.log"
        self.marker = str(self.folder)  # what the server's command line has and no stranger's has
        self._pid_file = self.folder / f"{self.name}.pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running server, or None."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        return running_pid(self._pid_file, marker=self.marker)

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command line."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server can be used, not only reached."""

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the server and return when it answers."""
        if self.pid is not None:
            return
        if listening(self.port):
            raise LocalServerError(f"port {self.port} of 127.0.0.1 is taken by another program; {self.name} needs it")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
            )
        self._pid_file.write_text(f"{self._process.pid}\n")
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
        self.kill()

    def kill(self) -> None:
        """End the server at once (kill -9): what it had not written is gone."""
        self._end(signal.SIGKILL, 10.0)

    def _end(self, number: int, timeout_s: float) -> None:
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + timeout_s
            while not self._ended(pid):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.02)
        self._process = None
        self._pid_file.unlink(missing_ok=True)

    def _ended(self, pid: int) -> bool:
        # an ending process loses its command line before it closes its port, so `pid` is None too early
        return ended(pid) if self._process is None else self._process.poll() is not None

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return f"{lines[-1] if lines else 'it said nothing'} (see {self.log})"


class LocalRedis(LocalServer):
    """One Redis on 127.0.0.1; ``options`` are redis-server's own (``{"maxmemory": "64mb"}``).

    With ``keep`` it has its keys again when it is started again; without, it is empty then.
    """

    name = "redis"

    def __init__(
        self, folder: Path, *, port: int | None = None, keep: bool = False, options: dict[str, str] | None = None
    ) -> None:
        super().__init__(folder, port=port)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.marker = f"redis-server 127.0.0.1:{self.port}"  # the title that Redis gives to its process
        self.options = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "save": ""}
        self.options |= {"appendonly": "yes" if keep else "no"} | (options or {})

    def command(self) -> Sequence[str]:
        """Return the command line of the server."""
        settings = self.folder / "redis.conf"
        settings.write_text("".join(f'{key} "{value}"\n' for key, value in self.options.items()))
        return [program("redis-server", package="redis-server"), str(settings)]

    def empty(self) -> None:
        """Remove every key."""
        with redis.Redis(port=self.port, socket_timeout=5.0) as client:
            client.flushall()

    def answers(self) -> bool:
        """Return whether the server answers, and not another at its port; one that wants a password does."""
        try:
            with redis.Redis(port=self.port, socket_timeout=1.0) as client:
                return bool(client.info("server")["process_id"] == self.pid)
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False


def program(name: str, *, package: str) -> str:
    """Return the path of a program, or say how to install it."""
    path = shutil.which(name)
    if path is None:
        raise LocalServerError(f"{name} is not installed; try: apt-get install {package}")
    return path


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
    """Return the command line of a process; empty if the process is ending or has ended."""
    return _described(pid, "cmdline", "args").replace("\0", " ")


def ended(pid: int) -> bool:
    """Return whether a process has ended: its files and ports are closed, and its parent can collect its exit code.

    On Linux the state of a process is already Z (zombie) while other threads of it are still ending.
    """
    fields = _described(pid, "stat", "stat").rpartition(")")[2].split()  # on Linux these follow the name
    state, threads = fields[0] if fields else "X", int(fields[17]) if len(fields) > 17 else 0
    return state[0] in "ZX" and threads <= 1


def _described(pid: int, linux: str, other: str) -> str:
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/{linux}").read_bytes().decode(errors="replace")
        except OSError:
            return ""
    command = ["ps", "-ww", "-o", f"{other}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
