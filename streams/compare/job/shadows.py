"""The shadows of a deployment, judged on what is logged."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.records import Snapshot
from streams.compare.shadows import ShadowResult, judge_shadow, shadows_of
from streams.logs import ArchiveSource, LogSource
from streams.offline import ListChoice, LogError, read_own_logs
from streams.replay import live_snapshots, snapshots_in
from streams.settings import Settings


def judged_shadows(source: LogSource, settings: Settings) -> tuple[list[ShadowResult], list[str]]:
    """Return each shadow's estimate by its newest snapshot, and why some have none."""
    shadows, notes, found = shadows_of(settings.buckets), list[str](), list[ShadowResult]()
    if not shadows:
        return found, notes
    snapshots = _snapshots(source, settings)
    for name, host in shadows.items():
        if name not in snapshots:
            notes.append(f"shadow {name} has no snapshot there yet")
            continue
        try:
            wanted = ListChoice(buckets=(host,), truncated=True, candidates=source.has("impressions"))
            logs, _ = read_own_logs(source, settings, wanted)
            found.append(judge_shadow(logs, snapshots[name], settings.buckets[name], settings.buckets[host]))
        except LogError as error:
            notes.append(f"shadow {name} cannot be judged: {error}")
    return found, notes


def _snapshots(source: LogSource, settings: Settings) -> Mapping[str, Snapshot]:
    if isinstance(source, ArchiveSource) and (source.archive.path / "snapshots").is_dir():
        return snapshots_in(source.archive.path / "snapshots", settings.buckets)
    return live_snapshots(source)
