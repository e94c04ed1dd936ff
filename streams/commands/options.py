"""Options and words that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from streams.settings import Settings


Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The settings file; else GLIMPSE_CONFIG, else ./glimpse.toml if there."),
]


class CommandError(RuntimeError):
    """Something that the user can put right."""


def with_buckets(config: Path | None) -> Settings:
    """Return the settings of a command that needs to know the buckets."""
    from streams.settings import SettingsError, load

    settings = load(config)
    if not settings.buckets:
        raise SettingsError("buckets", {}, "describe at least one in glimpse.toml; see examples/glimpse.toml")
    return settings


def writes_to(settings: Settings, topics: Iterable[str], *, redis: bool = False) -> None:
    """Say where a command is about to write: the broker and the topics by their full names, and Redis if it does."""
    names = ", ".join(settings.topic_prefix + topic for topic in topics)
    store = f", and to {settings.redis}" if redis and settings.redis else ""
    note(f"writes to Kafka at {settings.kafka}: {names}{store}")


def note(text: str) -> None:
    """Say something beside the output."""
    print(text, file=sys.stderr, flush=True)
