"""The place of snapshots that an address names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from streams.parameters.directory import DirectoryParameters
from streams.parameters.job.kafka import KafkaParameters
from streams.parameters.job.redis import RedisParameters
from streams.parameters.source import SnapshotSource
from streams.settings import Settings, load


class SourceUnknown(ValueError):
    """An address that is none of a place with snapshots."""


def open_parameters(source: str, settings: Settings | None = None) -> SnapshotSource:
    """Return the snapshots at ``kafka``, ``redis`` (as set), ``kafka://host:port``, ``redis://…`` or a directory.

    A directory holds snapshot files, or is one of the embedded runner, which has them in a folder of its own.
    """
    try:
        url = urlsplit(source)
    except ValueError as error:
        raise SourceUnknown(
            f"snapshots come from kafka, redis or a directory, and this is no address: {error}"
        ) from error
    if source == "kafka":
        return KafkaParameters(settings or load())
    if source == "redis":
        return RedisParameters(settings or load())
    if url.scheme == "kafka":
        return KafkaParameters(replace(settings or Settings(), kafka=url.netloc))
    if url.scheme in ("redis", "rediss", "unix"):
        return RedisParameters(replace(settings or Settings(), redis=source))
    if url.scheme in ("", "file"):
        path = Path(url.path if url.scheme else source)
        inside = path / "snapshots"
        return DirectoryParameters(inside if inside.is_dir() else path)
    raise SourceUnknown(f"snapshots come from kafka, redis or a directory, got {source!r}")
