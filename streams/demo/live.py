"""The demo with real jobs: on a Kafka that is set, or with a service and its users on servers of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
import uuid
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

from kafka.errors import KafkaError

from learner.simulate import browsing_table
from streams.broker import create_topics, delete_topics
from streams.demo.crowd import POSITIONS, buckets
from streams.demo.traffic import write_shop
from streams.events import Event
from streams.events.job import EventWriter
from streams.join import Ledger
from streams.join.job import run_join
from streams.learn.job import run_learn
from streams.ledger.job import join_commits
from streams.local import end_processes, free_port, start_servers, stop_servers, supervise
from streams.logs.job import open_source
from streams.parameters import SnapshotMissing
from streams.rank.job import Ranker
from streams.settings import Settings, load, write_examination

GLIMPSE = (sys.executable, "-m", "streams.cli")
TIMES_AND_PORTS = {"wait_s": 10, "lateness_s": 20, "web_port": 0, "join_web_port": 0}
PATIENCE_S = 60.0  # for both jobs to be up


@contextmanager
def live_loop(settings: Settings) -> Iterator[LiveLoop]:
    """Start a join and a learn process on topics of their own, which are deleted in the end, also after Ctrl-C."""
    prefix = f"demo-{uuid.uuid4().hex[:8]}-"
    settings = replace(settings, topic_prefix=prefix, web_port=0, join_web_port=0, redis=None)
    spawn = multiprocessing.get_context("spawn")
    jobs = [spawn.Process(target=be_job, args=(name, settings), name=name, daemon=True) for name in ("join", "learn")]
    with ExitStack() as ending:
        ending.callback(clean_up, settings)
        create_topics(settings)
        ending.callback(end_processes, jobs, grace_s=15)
        for job in jobs:
            job.start()
        events = ending.enter_context(closing(EventWriter(settings)))
        yield LiveLoop(settings, jobs, events, ending)


@dataclass(frozen=True, slots=True)
class LiveLoop:
    """The same loop as the embedded runner, at the pace of the clock: events to Kafka, snapshots from there."""

    settings: Settings
    jobs: Sequence[BaseProcess]
    events: EventWriter
    ending: ExitStack

    def append(self, events: Iterable[Event], *, at_ms: int) -> None:
        """Write events to Kafka once the clock has come to ``at_ms``."""
        self.step(at_ms)
        for event in events:
            self.events.send(event)

    def step(self, now_ms: int) -> None:
        """Let time pass; the jobs do the rest."""
        while (left_s := now_ms / 1000 - time.time()) > 0:
            for job in self.jobs:
                if not job.is_alive():
                    raise RuntimeError(f"the {job.name} process has ended with code {job.exitcode}")
            time.sleep(min(left_s, 1.0))

    def ranker(self, bucket: str, *, refresh_s: float | None = None, **options: Any) -> Ranker:
        """Return a ranker on the parameters topic; the first ones wait until the learner is up."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                ranker = Ranker.from_kafka(self.settings, bucket=bucket, refresh_s=refresh_s, **options)
            except SnapshotMissing:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.5)
            else:
                self.ending.callback(ranker.close)
                return ranker

    @property
    def ledgers(self) -> dict[int, Ledger]:
        """What became of the events of each partition, by the join's last commits."""
        commits = join_commits(open_source("kafka", self.settings))
        return {number: commit.ledger for number, commit in commits.items()}


def clean_up(settings: Settings) -> None:
    """Delete the topics of a demo, or say which are left and how to delete them."""
    try:
        delete_topics(settings)
    except KafkaError as error:
        command = f"kafka-topics.sh --bootstrap-server {settings.kafka} --delete --topic '{settings.topic_prefix}.*'"
        print(f"the demo's topics could not be deleted: {error}; do it with: {command}", file=sys.stderr)


def be_job(name: str, settings: Settings) -> None:
    """Be the join or the learn process."""
    sys.exit(run_join(settings, start="earliest") if name == "join" else run_learn(settings))


def play_live(folder: Path, *, alpha: float, seed: int, rate: float, say: Callable[[str], None]) -> int:
    """Run the loop until Ctrl-C and return the exit code; the servers go, settings, shop and curves stay."""
    folder.mkdir(parents=True, exist_ok=True)
    servers, shop = folder / "servers", folder / "shop.npz"
    addresses = start_servers(servers, environ={}, say=say)
    try:
        config = write_settings(folder, addresses, alpha=alpha)
        write_shop(shop, seed=seed)
        create_topics(load(config, environ={}))
        serve_port, dashboard_port = free_port(), free_port()
        dashboard = f"http://127.0.0.1:{dashboard_port}"
        say(f"users: {rate:g} a second; the dashboard: {dashboard}; settings: {config}; end it: Ctrl-C")
        Thread(target=open_when_there, args=(dashboard,), daemon=True).start()
        settings, catalogue = ["--config", str(config)], ["--catalogue", str(shop)]
        users = f"--url http://127.0.0.1:{serve_port} --rate {rate:g} --seconds 0 --seed {seed}".split()
        commands = {
            "worker": [*GLIMPSE, "worker", "--from", "earliest", *settings],
            "serve": [*GLIMPSE, "serve", "--port", str(serve_port), *catalogue, *settings],
            "dashboard": [*GLIMPSE, "dashboard", "--port", str(dashboard_port), *settings],
            "traffic": [*GLIMPSE, "traffic", *catalogue, *users, "--out", str(folder / "curves.html")],
        }
        own = {name: value for name, value in os.environ.items() if not name.startswith("GLIMPSE_")}
        return supervise(commands, grace_s=30.0, environ=own)
    finally:
        stop_servers(servers, delete=True, say=say)


def write_settings(folder: Path, addresses: Mapping[str, str], *, alpha: float) -> Path:
    """Write the settings of all processes, and return their file."""
    write_examination(folder / "examination.json", browsing_table(POSITIONS))
    values = {**addresses, **TIMES_AND_PORTS}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    for name, bucket in buckets(alpha).items():
        lines.append(f"[buckets.{name}]")
        lines += [f"{key} = {json.dumps(getattr(bucket, key))}" for key in ("algorithm", "dim", "positions")]
        if bucket.alpha is not None:
            lines.append(f"alpha = {bucket.alpha}")
        if bucket.examination is not None:
            whole = bucket.examination.ndim == 2
            lines.append(f"examination = {json.dumps('examination.json' if whole else bucket.examination.tolist())}")
    config = folder / "glimpse.toml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return config


def open_when_there(url: str) -> None:
    """Open a page in the browser, if there is one, once it answers."""
    for _ in range(120):
        try:
            urlopen(url, timeout=5).close()
        except OSError:  # URLError included
            time.sleep(0.5)
        else:
            webbrowser.open(url)
            return
