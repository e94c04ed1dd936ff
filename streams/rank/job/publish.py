"""A catalogue's file onto the compacted topic: what changed, in one transaction."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from streams.broker import KafkaWriter, catalogue_topic, create_topics
from streams.rank.catalogue_file import read_entries
from streams.rank.job.catalogues import READ_S, CatalogueTopic
from streams.settings import Settings

NAME = "glimpse-catalogue"  # a second writer of it ends what the first has not committed
OPEN_MS = 300_000  # how long writing may take, and how long one who is killed meanwhile holds back the next


class Published(NamedTuple):
    """What was done."""

    items: int
    users: int
    written: int
    removed: int


def publish_catalogue(settings: Settings, file: Path) -> Published:
    """Make the topic hold what a file does, creating it if need be; readers see all of it at once, or nothing.

    Only lines that differ are written; items and users that are not in the file any more are taken out.
    """
    entries = read_entries(file)
    topic = catalogue_topic(settings)
    create_topics(settings, [topic])
    with ExitStack() as begun:
        writer = KafkaWriter(settings, NAME, patience_ms=OPEN_MS, transaction_timeout_ms=OPEN_MS)
        begun.callback(writer.abandon)
        reader = begun.enter_context(closing(CatalogueTopic(settings)))
        reader.read(READ_S)
        known, wanted = reader.entries.lines(), entries.lines()
        changed = [key for key, line in wanted.items() if known.get(key) != line]
        gone = [key for key in known if key not in wanted]
        if changed or gone:
            writer.begin()
            for key in (*changed, *gone):
                value = wanted[key].encode() if key in wanted else None
                writer.send(topic.name, key=key.encode(), value=value, partition=0)
            writer.commit()
    return Published(len(entries.items), len(entries.users), len(changed), len(gone))
