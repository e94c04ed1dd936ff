"""A Redis for development from the redis-server on the PATH."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import redis

from streams.local.kafka import program
from streams.local.server import LocalServer


class LocalRedis(LocalServer):
    """One Redis on 127.0.0.1; ``options`` are redis-server's own (``{"maxmemory": "64mb"}``).

    With ``keep`` it has its keys again when it is started again; without, it is empty then.
    """

    name = "redis"

    def __init__(
        self, folder: Path, *, port: int | None = None, keep: bool = False, options: dict[str, str] | None = None
    ) -> None:
        super().__init__(folder, port=port)
        self.options = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "save": ""}
        self.options |= {"appendonly": "yes" if keep else "no"} | (options or {})

    @property
    def url(self) -> str:
        """The address to give to clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def marker(self) -> str:
        """The title that Redis gives to its process."""
        return f"redis-server 127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        """Return the command line of the server."""
        words = [program("redis-server", package="redis-server"), str(self.folder / "redis.conf")]
        (self.folder / "redis.conf").write_text("".join(f'{key} "{value}"\n' for key, value in self.options.items()))
        return words

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
