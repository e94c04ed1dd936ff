"""glimpse demo, up, down, topics, join, learn and worker: a first run, servers for development, and the stream jobs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from typer import Exit, Option, Typer

from streams.commands.options import Config, note, settings_of, writes_to

commands = Typer()


@commands.command()
def demo(
    lists: Annotated[int, Option(min=600, help="Lists to show, in all buckets together.")] = 30_000,
    seed: Annotated[int, Option(min=0, help="The same seed plays the same users and gives the same numbers.")] = 1,
    alpha: Annotated[float, Option(min=0, max=1e6, help="Width of the confidence bound, the same for all.")] = 0.3,
    out: Annotated[Path, Option(help="Where the logs and report.html go.")] = Path("demo"),
    kafka: Annotated[bool, Option("--kafka", help="On Kafka as set, with a real join and learn process.")] = False,
    live: Annotated[
        bool, Option("--live", help="Until Ctrl-C, over HTTP, on servers of its own: service, jobs, users, dashboard.")
    ] = False,
    rate: Annotated[float, Option(min=0.01, max=1e5, help="Users a second, with --live.")] = 20.0,
    config: Config = None,
) -> None:
    """Show what each learner makes of an old ranker's log, then play all bandits against simulated users.

    It needs no server. Day one: logs that a ranker ordered by a taste of its own are learned from, and what was
    learned serves the same users. The closed loop: users with a known taste come to six buckets, one per algorithm
    and one that draws lots. Each is ranked a list by its bucket's ranker; impressions and clicks are logged, joined
    and learned; new snapshots go back to the rankers.
    """
    from streams.demo import play_live, run_demo

    if live:
        raise Exit(play_live(out / "live", alpha=alpha, seed=seed, rate=rate, say=note))
    settings = settings_of(config) if kafka else None
    if settings is not None:
        note(f"writes to Kafka at {settings.kafka}: topics of its own (demo-…), which are deleted in the end")
    run_demo(lists=lists, seed=seed, alpha=alpha, out=out, kafka=settings)


Folder = Annotated[Path, Option("--dir", help="Where the servers keep process ids, ports, data and logs.")]
Docker = Annotated[bool, Option("--docker", help="Use docker compose with the docker-compose.yml of this folder.")]


@commands.command()
def up(folder: Folder = Path(".glimpse"), docker: Docker = False) -> None:
    """Start a Kafka and a Redis on 127.0.0.1 for development, and print where they are.

    Commands in the same folder find them by themselves; elsewhere, in a shell: eval "$(glimpse up)". Kafka's jars are
    fetched once through mvn; a server that GLIMPSE_KAFKA or GLIMPSE_REDIS names is used instead of an own one. Running
    it again starts only what does not run.
    """
    from streams.local import compose, exports, start_servers

    if docker:
        compose("up", "--detach", "--wait", "kafka", "redis", say=note)
        addresses = {"kafka": "127.0.0.1:9092", "redis": "redis://127.0.0.1:6379/0"}
    else:
        addresses = start_servers(folder, environ=os.environ, say=note)
    print(exports(addresses))
    note("next: glimpse topics")


@commands.command()
def down(
    folder: Folder = Path(".glimpse"),
    docker: Docker = False,
    delete: Annotated[bool, Option("--delete", help="Remove the data too: topics and keys are gone.")] = False,
) -> None:
    """Stop what `glimpse up` started; the data stays for the next time unless told otherwise.

    With --delete what it wrote is removed, and nothing else that stands in its folder.
    """
    from streams.local import compose, stop_servers

    if docker:
        compose("down", *(["--volumes"] if delete else []), say=note)
    else:
        stop_servers(folder, delete=delete, say=note)


@commands.command()
def topics(
    check: Annotated[bool, Option("--check", help="Create nothing, only look.")] = False,
    fix: Annotated[bool, Option("--fix", help="Set wrong configs right.")] = False,
    config: Config = None,
) -> None:
    """Create the topics that are missing, and check all of them; exit code 1 when something is wrong.

    Checked are equal partitions of impressions and clicks, compaction, time stamps, retention beyond the horizon and
    the allowed downtime, replication, record size, and whether transactions are possible.
    """
    from streams.broker import check_topics, create_topics, fix_topics, topic_specs
    from streams.settings import TOPICS

    settings = settings_of(config)
    if fix or not check:
        writes_to(settings, TOPICS)
    if not check:
        note(*(f"created {name}" for name in create_topics(settings)))
    if fix:
        note(*fix_topics(settings))
    problems = check_topics(settings)
    note(*(f"wrong: {problem}" for problem in problems))
    for topic in topic_specs(settings):
        print(f"{topic.name}\t{topic.record}\tby {topic.key}")
    if problems:
        raise Exit(1)


From = Annotated[
    str | None,
    Option("--from", help="Where a join that never began begins: earliest, latest or an ISO time; no effect later."),
]
Anew = Annotated[
    bool,
    Option(
        "--anew",
        help="Begin again, by --from, what is refused when this process first looks at it; loses or repeats events.",
    ),
]


@contextmanager
def as_job() -> Iterator[None]:
    """End with 0 on SIGTERM, also before the job listens to it and after; have BLAS use one thread unless told.

    A job's products are small, and threads mostly wait for each other.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when numpy is loaded
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    finally:  # it ends anyway; Python would give a handler's default back before
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@commands.command()
def join(start: From = None, anew: Anew = False, config: Config = None) -> None:
    """Join impressions and clicks into samples, exactly once, until SIGTERM."""
    with as_job():
        from streams.join.job import run_join

        settings = settings_of(config, buckets=True)
        writes_to(settings, ("samples", "late-clicks", "dead-letters"))
        code = run_join(settings, start=start, anew=anew)
    raise Exit(code)


@commands.command()
def learn(config: Config = None) -> None:
    """Learn each bucket's model from samples and publish snapshots to Kafka and Redis, until SIGTERM."""
    with as_job():
        from streams.learn.job import run_learn

        settings = settings_of(config, buckets=True)
        writes_to(settings, ("parameters", "dead-letters"), online=True)
        code = run_learn(settings)
    raise Exit(code)


@commands.command()
def worker(start: From = None, config: Config = None) -> None:
    """Run join and learn together, as two processes that end together; exit code not 0 when one died."""
    from streams.local import supervise

    settings_of(config, buckets=True)  # a wrong setting is said once, not by both
    glimpse = [sys.executable, "-m", "streams.cli"]
    options = ["--config", str(config)] if config else []
    begin = ["--from", start] if start else []
    raise Exit(supervise({"join": [*glimpse, "join", *begin, *options], "learn": [*glimpse, "learn", *options]}))
