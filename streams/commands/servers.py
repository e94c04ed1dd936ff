"""glimpse up, down and topics: servers for development, and the topics on them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, note, writes_to

commands = typer.Typer()


Folder = Annotated[Path, typer.Option("--dir", help="Where the servers keep process ids, ports, data and logs.")]


Docker = Annotated[
    bool, typer.Option("--docker", help="Use docker compose with the docker-compose.yml of this folder.")
]


@commands.command()
def up(folder: Folder = Path(".glimpse"), docker: Docker = False) -> None:
    """Start a Kafka and a Redis on 127.0.0.1 for development, and print where they are.

    Commands in the same folder find them by themselves; elsewhere, in a shell: eval "$(glimpse up)". Kafka's jars are
    fetched once through mvn; a server that GLIMPSE_KAFKA or GLIMPSE_REDIS names is used instead of an own one. Running
    it again starts only what does not run.
    """
    from streams.local import Addresses, compose, start_servers

    if docker:
        compose("up", "--detach", "--wait", "kafka", "redis", say=note)
        addresses = Addresses(kafka="127.0.0.1:9092", redis="redis://127.0.0.1:6379/0")
    else:
        addresses = start_servers(folder, environ=os.environ, say=note)
    print(addresses.exports())
    note("next: glimpse topics")


@commands.command()
def down(
    folder: Folder = Path(".glimpse"),
    docker: Docker = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the data too: topics and keys are gone.")] = False,
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
    check: Annotated[bool, typer.Option("--check", help="Create nothing, only look.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Set wrong configs right.")] = False,
    config: Config = None,
) -> None:
    """Create the topics that are missing, and check all of them; exit code 1 when something is wrong.

    Checked are equal partitions of impressions and clicks, compaction, time stamps, retention beyond the horizon and
    the allowed downtime, replication, record size, and whether transactions are possible.
    """
    from streams.broker import check_topics, create_topics, fix_topics, topic_specs
    from streams.settings import TOPICS, load

    settings = load(config)
    if fix or not check:
        writes_to(settings, TOPICS)
    for name in [] if check else create_topics(settings):
        note(f"created {name}")
    for change in fix_topics(settings) if fix else []:
        note(change)
    problems = check_topics(settings)
    for problem in problems:
        note(f"wrong: {problem}")
    for topic in topic_specs(settings):
        print(f"{topic.name}\t{topic.record}\tby {topic.key}")
    if problems:
        raise typer.Exit(1)
