"""The sections of the page for one view of it, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams.dashboard.detail import detail
from streams.dashboard.page import Page
from streams.dashboard.rates import WINDOWS
from streams.dashboard.recent import SPAN_MS
from streams.dashboard.rounding import short
from streams.dashboard.throughput import STREAMS

Rows = dict[str, list[Any]]  # a table by key, of which only changed rows travel
SAID_MS = 600_000  # so long the page says that a part of it has failed


@dataclass(frozen=True, slots=True)
class PageView:
    """What one page wants to see; without a window, the one that fits."""

    window: str = ""
    bucket: str = ""


def sections(page: Page, view: PageView) -> dict[str, Any]:
    """Return the parts of the page for a view."""
    names = page.columns.names
    bucket = view.bucket if view.bucket in names else (names[0] if names else "")
    window = view.window if view.window in page.rates.timelines else _fitting(page)
    made: dict[str, Callable[[], Any]] = {
        "now": lambda: {"log": page.update.at_ms, "server": int(page.clock() * 1000)},
        "compare": page.compared.section,
        "buckets": lambda: [_bucket(page, name) for name in names],
        "ctr": lambda: page.rates.timelines[window],
        "flow": lambda: page.throughput.timelines[window],
        "rates": lambda: {name: short(page.throughput.rates.get(name)) for name in STREAMS},
        "snapshots": lambda: _snapshot_rows(page),
        "letters": lambda: _letter_rows(page),
        "lag": lambda: _lag_groups(page),
        "partitions": lambda: _lag_rows(page),
        "fresh": lambda: page.loop.rows,
        "freshness": lambda: _freshness(page),
        **detail(page, bucket, window),
    }
    sections: dict[str, Any] = {}
    for name, make in made.items():
        with page.part(name):
            sections[name] = make()
    return sections | {"status": _status(page) | {"window": window}}


def _fitting(page: Page) -> str:
    """Return the smallest window that holds the data; of a live log half an hour of it, or more to see any."""
    now_ms, newest = page.update.at_ms, page.rates.newest_ms or page.update.at_ms
    needed = now_ms - (page.rates.oldest_ms or now_ms)
    if page.consumers:
        needed = max(min(needed, SPAN_MS), now_ms - newest)
    return next((name for name, (width, bins) in WINDOWS.items() if width * (bins - 4) >= needed), "all")


def _freshness(page: Page) -> dict[str, Any]:
    loop = page.loop
    since = round(loop.since_ms, -4)  # every 10 s is news enough
    return {"since": since, "share": short(loop.share), "tolerance_s": loop.tolerance_s}


def _status(page: Page) -> dict[str, Any]:
    trouble = page.trouble
    return {
        "source": page.source_name,
        "trouble": trouble[0] if trouble else None,
        "trouble_since": trouble[1] if trouble else None,
        "behind": page.update.behind,
        "waiting": page.update.at_ms == 0,
        "missing": list(page.update.missing),
        "refused": list(page.update.refused),
        "user": page.settings.kafka_username or "",
        "skipped": dict(page.skipped),  # a copy: a page compares it with what it was sent
        "sampled": list(page.update.sampled),
        "share": short(page.update.share, 2),  # of the samples
        "history_share": short(page.update.history_share, 2),
        "prefix": page.settings.topic_prefix,
        "broken": {name: list(why) for name, why in page.broken.items() if why[1] > page.clock() * 1000 - SAID_MS},
        "consumers": page.consumers,
        "wait_s": page.settings.wait_s,
        "lateness_s": page.settings.lateness_s,
        "newest": page.rates.newest_ms,
        "unreadable": page.rates.unreadable + page.snapshots.unreadable,
    }


def _bucket(page: Page, name: str) -> list[Any]:
    bucket, snapshot = page.settings.buckets.get(name), page.snapshots.newest.get(name)
    return [name, bucket.algorithm if bucket else snapshot.algorithm if snapshot else ""]


def _snapshot_rows(page: Page) -> Rows:
    rows = {}
    for name, snapshot in page.snapshots.newest.items():
        move = page.snapshots.moves[name].newest[-1]
        version = f"{snapshot.epoch}.{snapshot.samples_offset}"
        lengths = [short(move.norm), short(move.moved)]
        rows[name] = [version, snapshot.published_at_ms, snapshot.rounds, *lengths, snapshot.sha256[:12]]
    return rows


def _letter_rows(page: Page) -> Rows:
    return {
        str(reason.number): [reason.topic, reason.text, reason.count, reason.first_ms, reason.last_ms]
        for reason in page.letters.reasons.values()
    }


def _lag_groups(page: Page) -> dict[str, Any]:
    lag = page.lag
    if lag is None:
        return {"trouble": page.lag_trouble, "groups": []}
    names = ("name", "group", "verdict", "reason", "lag", "members")
    groups = [{name: group[name] for name in names} | {"lag_s": short(group["lag_s"])} for group in lag["groups"]]
    about = {"verdict": lag["verdict"], "notes": lag["notes"], "at": lag["at_ms"], "trouble": page.lag_trouble}
    return about | {"groups": groups}


def _lag_rows(page: Page) -> Rows:
    rows: Rows = {}
    for group in page.lag["groups"] if page.lag else ():
        for one in group["partitions"]:
            seconds = [short(one[name]) for name in ("lag_s", "rate_in", "rate_out", "catch_up_s")]
            kept = one["retention_left_s"]
            hours = None if kept is None else round(kept / 60) * 60
            transaction = one["transaction"]
            rows[f"{group['name']} {one['topic']} {one['partition']}"] = [
                one["verdict"],
                one["lag"],
                *seconds,
                hours,
                one["committed"],
                one["end"],
                one["lost"],
                short(transaction["age_s"]) if transaction else None,
                one["reason"],
                one["note"],
            ]
    return rows
