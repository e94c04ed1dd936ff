"""glimpse <command>: thin functions around the work, and errors that people can read."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.commands.audit import commands as audit_commands
from streams.commands.dashboard import commands as dashboard_commands
from streams.commands.logs import commands as log_commands
from streams.commands.offline import commands as offline_commands

if TYPE_CHECKING:
    from streams.settings.settings import Settings

# The work is imported inside each command, so that --help answers at once.

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Learns what users like from what they click, knowing that they did not look at everything.

    A first run: glimpse demo. With servers: glimpse up, then topics, worker, produce and rank.
    Settings come from GLIMPSE_* variables and glimpse.toml (see examples/glimpse.toml).""",
)

cli.add_typer(log_commands)
cli.add_typer(dashboard_commands)
cli.add_typer(audit_commands)
cli.add_typer(offline_commands)

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The settings file; else GLIMPSE_CONFIG, else ./glimpse.toml if there."),
]
Folder = Annotated[Path, typer.Option("--dir", help="Where the servers keep process ids, ports, data and logs.")]
Docker = Annotated[
    bool, typer.Option("--docker", help="Use docker compose with the docker-compose.yml of this folder.")
]
From = Annotated[
    str | None,
    typer.Option("--from", help="Where to begin when the group has no place yet: earliest, latest or an ISO time."),
]


class CommandError(RuntimeError):
    """Something that the user can put right."""


@cli.command()
def demo(
    lists: Annotated[int, typer.Option(min=600, help="Lists to show, in all buckets together.")] = 30_000,
    seed: Annotated[int, typer.Option(help="The same seed plays the same users and gives the same numbers.")] = 1,
    alpha: Annotated[float, typer.Option(min=0, help="Width of the confidence bound, the same for all.")] = 0.3,
    out: Annotated[Path, typer.Option(help="Where the logs and report.html go.")] = Path("demo"),
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On Kafka as set, with a real join and learn process.")
    ] = False,
    config: Config = None,
) -> None:
    """Play all bandits against simulated users, in one process and without any server.

    Users with a known taste come to six buckets, one per algorithm and one that draws lots. Each is ranked a list by
    its bucket's ranker; impressions and clicks are logged, joined and learned; new snapshots go back to the rankers.
    """
    from streams.demo.play import run
    from streams.settings.load import load

    run(lists=lists, seed=seed, alpha=alpha, out=out, kafka=load(config) if kafka else None)


@cli.command()
def up(folder: Folder = Path(".glimpse"), docker: Docker = False) -> None:
    """Start a Kafka and a Redis on 127.0.0.1 for development, and print where they are.

    In a shell: eval "$(glimpse up)". Kafka's jars are fetched once through mvn; a server that GLIMPSE_KAFKA or
    GLIMPSE_REDIS names is used instead of an own one. Running it again starts only what does not run.
    """
    from streams.local import up as local

    if docker:
        local.compose("up", "--detach", "--wait", "kafka", "redis", say=note)
        addresses = local.Addresses(kafka="127.0.0.1:9092", redis="redis://127.0.0.1:6379/0")
    else:
        addresses = local.up(folder, environ=os.environ, say=note)
    print(addresses.exports())
    note("next: glimpse topics")


@cli.command()
def down(
    folder: Folder = Path(".glimpse"),
    docker: Docker = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the data too: topics and keys are gone.")] = False,
) -> None:
    """Stop what `glimpse up` started; the data stays for the next time unless told otherwise."""
    from streams.local import up as local

    if docker:
        local.compose("down", *(["--volumes"] if delete else []), say=note)
    else:
        local.down(folder, delete=delete, say=note)


@cli.command()
def topics(
    check: Annotated[bool, typer.Option("--check", help="Create nothing, only look.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Set wrong configs right.")] = False,
    config: Config = None,
) -> None:
    """Create the topics that are missing, and check all of them; exit code 1 when something is wrong.

    Checked are equal partitions of impressions and clicks, compaction, time stamps, retention beyond the horizon and
    the allowed downtime, replication, record size, and whether transactions are possible.
    """
    from streams.broker import topics as work
    from streams.settings.load import load

    settings = load(config)
    for name in [] if check else work.create(settings):
        note(f"created {name}")
    for change in work.fix(settings) if fix else []:
        note(change)
    problems = work.check(settings)
    for problem in problems:
        note(f"wrong: {problem}")
    for topic in work.specs(settings):
        print(f"{topic.name}\t{topic.record}\tby {topic.key}")
    if problems:
        raise typer.Exit(1)


@cli.command()
def join(start: From = None, config: Config = None) -> None:
    """Join impressions and clicks into samples, exactly once, until SIGTERM."""
    from streams.join.job.worker import run

    raise typer.Exit(run(with_buckets(config), start=start))


@cli.command()
def learn(config: Config = None) -> None:
    """Learn each bucket's model from samples and publish snapshots to Kafka and Redis, until SIGTERM."""
    from streams.learn.job.app import run

    raise typer.Exit(run(with_buckets(config)))


@cli.command()
def worker(start: From = None, config: Config = None) -> None:
    """Run join and learn together, as two processes that end together; exit code not 0 when one died."""
    from streams.commands.supervise import supervise

    with_buckets(config)  # a wrong setting is said once, not by both
    glimpse = [sys.executable, "-m", "streams.cli"]
    options = ["--config", str(config)] if config else []
    begin = ["--from", start] if start else []
    raise typer.Exit(supervise({"join": [*glimpse, "join", *begin, *options], "learn": [*glimpse, "learn", *options]}))


@cli.command()
def produce(
    file: Annotated[
        typer.FileText | None, typer.Argument(help="JSON lines of events, - for stdin; else they are simulated.")
    ] = None,
    lists: Annotated[int, typer.Option(min=1, help="How many lists to simulate.")] = 1000,
    rate: Annotated[float | None, typer.Option(help="Events a second; as fast as possible if not said.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed simulates the same users.")] = 0,
    restamp: Annotated[
        bool, typer.Option("--restamp", help="Date recorded events now, so that they are not late.")
    ] = False,
    config: Config = None,
) -> None:
    """Write impressions and clicks to the topics, simulated or from a file.

    A line of the file: {"type": "click", "impression_id": "i1", "session_id": "s1", "position": 2, "clicked_at_ms": 9}
    """
    from rich.console import Console

    from streams.events.events import read_events
    from streams.events.job import produce as work

    settings = with_buckets(config)
    console = Console(stderr=True)
    try:
        if file is None:
            done = work.produce(settings, work.simulated(settings, lists, seed=seed), rate=rate, console=console)
        else:
            events = read_events(file, name=f"{file.name} line")
            done = work.produce(settings, events, rate=rate, restamp=restamp, console=console)
    except ValueError as error:  # of a line, or of an option
        raise CommandError(str(error)) from error
    note(f"{done.impressions} impressions and {done.clicks} clicks in {done.seconds:.1f} s")


@cli.command()
def rank(
    bucket: Annotated[str, typer.Argument(help="Whose model.")],
    candidates: Annotated[
        typer.FileText, typer.Argument(help='JSON lines {"item": 7, "context": [0.5, 0.1]}, - for stdin.')
    ],
    size: Annotated[int, typer.Option(min=1, help="How many to print.")] = 12,
    source: Annotated[
        str | None, typer.Option(help="kafka, redis, a URL of one, or a directory; else redis if set, else kafka.")
    ] = None,
    config: Config = None,
) -> None:
    """Order candidates with a bucket's newest snapshot, best first: item and estimated attractiveness."""
    from streams.rank.candidates import read_candidates
    from streams.rank.job.ranker import Ranker
    from streams.settings.load import load

    settings = load(config)
    found = read_candidates(candidates)
    source = source or ("redis" if settings.redis else "kafka")
    with Ranker.from_url(source, bucket=bucket, settings=settings, refresh_s=None) as ranker:
        try:
            rows = ranker.rank(found.contexts, size=size, items=found.items)
            scores = ranker.predict(found.contexts, items=found.items)
        except ValueError as error:  # the contexts do not fit the model
            raise CommandError(f"{candidates.name}: {error}") from error
    for row in rows:
        print(found.items[row], f"{scores[row]:.6f}")


@cli.command()
def lag(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh in place until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per report.")] = False,
    max_lag_seconds: Annotated[
        float | None, typer.Option(min=0, help="Exit code 1 when a record waits for longer.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Another group on these topics; may be repeated.")] = None,
    window: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds of commits that a verdict looks at; some commits long.")
    ] = 30.0,
    every: Annotated[float, typer.Option(min=0.1, max=3_600, help="Seconds between two looks.")] = 2.0,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve it for Prometheus on this port, until SIGTERM.")
    ] = None,
    config: Config = None,
) -> None:
    """Show how far each job is behind, in records and seconds, with a verdict and why; works while they are down.

    Verdicts: OK; WARN falls behind; STALL commits but does not move; STOP commits no more; REWIND went back.
    Exit code: 0 all OK; 1 not OK, or more than --max-lag-seconds behind; 2 it could not be found out.
    """
    from streams.lag.job.exporter import serve
    from streams.lag.job.view import run
    from streams.lag.verdict import Window
    from streams.settings.load import load

    try:
        settings, groups, past = load(config), group or [], Window(span_s=window)
        if metrics_port is not None:
            code = serve(settings, port=metrics_port, groups=groups, window=past, every_s=every)
        else:
            looking = partial(run, settings, groups=groups, window=past, every_s=every)
            code = looking(watch=watch, as_json=as_json, max_lag_s=max_lag_seconds)
    except Exception as error:  # 1 would say that something is behind
        words = explained(error)
        if words is None:
            traceback.print_exc()
        else:
            note(f"glimpse lag: {words}")
        code = 2
    raise typer.Exit(code)


def with_buckets(config: Path | None) -> Settings:
    """Return the settings of a command that needs to know the buckets."""
    from streams.settings.checks import SettingsError
    from streams.settings.load import load

    settings = load(config)
    if not settings.buckets:
        raise SettingsError("buckets", {}, "describe at least one in glimpse.toml; see examples/glimpse.toml")
    return settings


def note(text: str) -> None:
    """Say something beside the output."""
    print(text, file=sys.stderr, flush=True)


class LastWords(logging.Handler):
    """Keeps the last reason that kafka-python logged: its errors only say that nothing worked."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep why a connection failed."""
        found = re.match(r"Bootstrap connection to \S+ failed: (.*?)(?: \(backoff.*)?$", record.getMessage())
        if found:
            self.text = f" ({found[1]})"


def explained(error: Exception, last_words: str = "") -> str | None:
    """Return what a user must know of an expected error, in one line; None for a bug, which keeps its trace."""
    words = " ".join(str(error).split()) or type(error).__name__
    home = type(error).__module__.partition(".")[0]
    if home in ("streams", "schemas", "__main__"):  # made for people
        return words
    if home == "kafka":
        from kafka.errors import KafkaConnectionError, KafkaTimeoutError

        if isinstance(error, (KafkaTimeoutError, KafkaConnectionError)):
            advice = "see GLIMPSE_KAFKA, its security and password, or start one: glimpse up"
            return f"Kafka does not answer: {words}{last_words}; {advice}"
        return f"Kafka: {words}"
    if isinstance(error, OSError) and error.strerror:
        advice = "; free some space and run it again: it goes on" if error.errno == errno.ENOSPC else ""
        return f"{error.filename}: {error.strerror}{advice}" if error.filename else f"{error.strerror}{advice}"
    if home == "redis":
        return f"Redis: {words}; see GLIMPSE_REDIS, or start one: glimpse up"
    return None


def main() -> None:
    """Run the command; an expected error is one line on stderr and exit code 1."""
    last = LastWords()
    logging.getLogger("kafka").addHandler(last)
    try:
        cli()
    except Exception as error:
        words = explained(error, last.text)
        if words is None:
            raise
        note(f"glimpse: {words}")
        sys.exit(1)


if __name__ == "__main__":
    main()
