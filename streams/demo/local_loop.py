"""The whole loop on this machine, in one folder: its own Kafka and Redis, settings, a shop, and what runs on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from learner.simulate import browsing_table
from streams.broker import create_topics
from streams.demo.crowd import POSITIONS, buckets
from streams.demo.storefront import write_shop
from streams.local import free_port, start_servers, stop_servers
from streams.settings import load, write_examination

WAIT_S, LATENESS_S = 10, 20
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LocalLoop:
    """A folder with everything that the processes of the loop need."""

    folder: Path
    seed: int
    serve_port: int
    dashboard_port: int

    @classmethod
    def start(cls, folder: Path, *, alpha: float, seed: int, say: Say) -> LocalLoop:
        """Start the servers, write settings and shop, make the topics."""
        folder.mkdir(parents=True, exist_ok=True)
        loop = cls(folder, seed, free_port(), free_port())
        addresses = start_servers(loop.servers, environ={}, say=say)
        write_examination(folder / "examination.json", browsing_table(POSITIONS))
        write_shop(loop.shop, seed=seed)
        lines = [f'kafka = "{addresses.kafka}"', f'redis = "{addresses.redis}"']
        lines += [f"wait_s = {WAIT_S}", f"lateness_s = {LATENESS_S}", "web_port = 0", "join_web_port = 0"]
        for name, bucket in buckets(alpha).items():
            lines += [f"[buckets.{name}]", f'algorithm = "{bucket.algorithm}"', f"dim = {bucket.dim}"]
            lines += [f"positions = {bucket.positions}"]
            if bucket.alpha is not None:
                lines += [f"alpha = {bucket.alpha}"]
            if bucket.examination is not None:
                whole = bucket.examination.ndim == 2
                table = '"examination.json"' if whole else json.dumps(bucket.examination.tolist())
                lines += [f"examination = {table}"]
        loop.config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        create_topics(load(loop.config, environ={}))
        return loop

    @property
    def servers(self) -> Path:
        """Where Kafka and Redis keep their data."""
        return self.folder / "servers"

    @property
    def config(self) -> Path:
        """The settings of all processes."""
        return self.folder / "glimpse.toml"

    @property
    def shop(self) -> Path:
        """The catalogue that the service holds and the users know."""
        return self.folder / "shop.npz"

    @property
    def dashboard_url(self) -> str:
        """Where to watch."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    def commands(self, glimpse: Sequence[str], *, rate: float) -> dict[str, list[str]]:
        """Return what must run at the same time, by name."""
        config, shop = ["--config", str(self.config)], ["--catalogue", str(self.shop)]
        url = f"http://127.0.0.1:{self.serve_port}"
        crowd = ["--url", url, "--rate", f"{rate:g}", "--seconds", "0", "--seed", str(self.seed)]
        return {
            "worker": [*glimpse, "worker", "--from", "earliest", *config],
            "serve": [*glimpse, "serve", "--port", str(self.serve_port), *shop, *config],
            "dashboard": [*glimpse, "dashboard", "--port", str(self.dashboard_port), *config],
            "traffic": [*glimpse, "traffic", *shop, *crowd, "--out", str(self.folder / "curves.html")],
        }

    def stop(self, say: Say) -> None:
        """Stop the servers and delete their data; settings, shop and curves stay."""
        stop_servers(self.servers, delete=True, say=say)
