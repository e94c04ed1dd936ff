"""glimpse dead-letters, archive and restore: what was refused and why, and topics as a directory of files."""

from __future__ import annotations

import heapq
import json
import time
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from streams.commands.options import CommandError, Config, Source, bar, note, settings_of, time_of, writes_to

if TYPE_CHECKING:
    from streams.events import EventReader
    from streams.logs import LetterCounts, Refusal

commands = Typer()


@commands.command()
def dead_letters(
    source: Source = "kafka",
    reason: Annotated[str, Option(help="Only those whose reason has this text in it.")] = "",
    limit: Annotated[int, Option(min=0, help="How many of the newest to show.")] = 10,
    as_json: Annotated[bool, Option("--json", help="One line of JSON: counts by reason, and the newest.")] = False,
    again: Annotated[bool, Option("--resend", help="Send all of them to where they came from.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do send; without this only what would be is said.")] = False,
    config: Config = None,
) -> None:
    """Show what was refused: counts by reason, then the newest records, decoded where that is possible.

    --resend writes impressions and clicks back to their topics, key and value as they were, for after a fix (a bucket
    that was missing, a bound that was too low). Sent twice they count once. What would only be refused again is left
    out, and said; so are samples, which a new epoch of their bucket learns from the log.
    """
    from streams.events import EventReader
    from streams.logs import LetterCounts, letters_end, not_to_resend, read_letters
    from streams.logs.job import open_source, resend

    settings = settings_of(config)
    if again and source != "kafka":
        raise CommandError("--resend works on kafka as set: letters of an archive or of another broker are not its own")
    reader = EventReader.of(settings)
    horizon_passed = round((time.time() - settings.horizon_s) * 1000)
    held_back = partial(
        not_to_resend,
        reader=reader,
        topic_prefix=settings.topic_prefix,
        passed_before_ms=horizon_passed if settings.timestamps == "LogAppendTime" else None,
    )
    with closing(open_source(source, settings)) as logs:
        bounds, counts = letters_end(logs), LetterCounts(held_back)
        newest: list[tuple[tuple[int, int, int], Refusal]] = []
        for refusal in read_letters(logs, bounds, reason=reason):
            counts.add(refusal)
            entry = (refusal.refused_at_ms, refusal.partition, refusal.offset), refusal
            (heapq.heappushpop if len(newest) >= limit else heapq.heappush)(newest, entry)
        shown = [refusal for _, refusal in sorted(newest, reverse=True)[:limit]]
        print(as_one_line(counts, shown, reader) if as_json else "\n".join(as_text(counts, shown, reader)))
        if not again:
            return
        for why, count in counts.held.most_common():
            note(f"{count} are left out: {why}")
        topics = sorted(topic.removeprefix(settings.topic_prefix) for topic in counts.resendable)
        if not topics:
            note("there is nothing to send again")
            return
        if not yes:
            note(f"{counts.resendable.total()} would be sent to Kafka at {settings.kafka}: {listed(counts.resendable)}")
            note("nothing was sent; with --yes it will be")
            return
        writes_to(settings, topics)
        sent = resend(settings, read_letters(logs, bounds, reason=reason), held_back=held_back)
        note(f"{sent.total()} were sent: {listed(sent)}")


def listed(counts: dict[str, int]) -> str:
    """Return counts by topic in words."""
    return ", ".join(f"{count} to {topic}" for topic, count in sorted(counts.items()))


def as_text(counts: LetterCounts, shown: list[Refusal], reader: EventReader) -> list[str]:
    """Return the counts and the newest letters for people."""
    from streams.logs import opened, time_text

    text = [
        f"{kind.count}\t{kind.topic}\t{time_text(kind.first_ms)} to {time_text(kind.last_ms)}\t{kind.reason}"
        for kind in counts.reasons()
    ]
    for refusal in shown:
        about = opened(refusal.letter, reader)
        origin = f"{about['topic']} {about['partition']} at offset {about['offset']}"
        size = "no value" if about["bytes"] is None else f"{about['bytes']} bytes"
        text += [
            "",
            f"{time_text(refusal.refused_at_ms)} {origin}, key {about['key']!r}, {size}",
            f"  {about['reason']}",
        ]
        text += contents(about)
    return [harmless(line) for line in text] or ["no dead letters"]


def harmless(line: str) -> str:
    """Return a line that changes nothing in the terminal: what was refused may say anything.

    >>> harmless("a\\tb \\x1b[2J")
    'a\\tb �[2J'
    """
    return "".join(sign if sign.isprintable() or sign == "\t" else "�" for sign in line)


def contents(about: dict[str, Any]) -> list[str]:
    """Return the lines of a record's fields, or of its first bytes."""
    decoded = about["decoded"]
    if "error" in decoded:
        return [f"  bytes {about['hex'][:160]}"]
    fields = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in decoded["fields"].items()]
    return [f"  {decoded['kind']}: " + ", ".join(text if len(text) < 200 else f"{text[:200]}…" for text in fields)]


def as_one_line(counts: LetterCounts, shown: list[Refusal], reader: EventReader) -> str:
    """Return the same for programs."""
    from streams.logs import opened

    letters = [
        {"place": f"{refusal.partition}-{refusal.offset}", "refused_at_ms": refusal.refused_at_ms}
        | opened(refusal.letter, reader)
        for refusal in shown
    ]
    return json.dumps({"reasons": [asdict(kind) for kind in counts.reasons()], "letters": letters})


@commands.command()
def archive(
    folder: Annotated[Path, Argument(help="The directory; one that has an archive is brought up to date.")],
    topic: Annotated[list[str] | None, Option(help="Only these, as in --topic samples; else all six.")] = None,
    start: Annotated[str | None, Option("--from", help="From this time (ISO, UTC).")] = None,
    stop: Annotated[str | None, Option("--to", help="Before this time.")] = None,
    codec: Annotated[str | None, Option(help="zstandard, deflate or null; else the best installed.")] = None,
    config: Config = None,
) -> None:
    """Copy topics from Kafka to a directory of Avro files, with offsets and time stamps; again, it goes on."""
    from streams.logs import Archive
    from streams.logs.job import copy
    from streams.settings import TOPICS

    done = copy(
        settings_of(config),
        Archive(folder),
        topics=topic or TOPICS,
        from_ms=time_of(start),
        to_ms=time_of(stop),
        codec=codec,
        progress=bar(),
    )
    for part in done:
        print(f"{part.topic}\t{part.partition}\t{part.start} to {part.end}\t{part.records} records")


@commands.command()
def restore(
    folder: Annotated[Path, Argument(help="The directory of an archive.")],
    topic: Annotated[list[str] | None, Option(help="Which; else impressions and clicks.")] = None,
    config: Config = None,
) -> None:
    """Write an archive back to Kafka, into empty topics that keep its time stamps; interrupted, it goes on."""
    from streams.logs import Archive
    from streams.logs.job import restore as work
    from streams.settings import EVENTS

    settings, chosen = settings_of(config), topic or EVENTS
    writes_to(settings, chosen)
    for part in work(settings, Archive.open(folder), topics=chosen, progress=bar()):
        print(f"{part.topic}\t{part.partition}\t{part.records} records, {part.end} in all")
