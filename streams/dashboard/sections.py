"""The sections of the page for one view of it, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from learner.browsing import table_hash
from schemas.records import Snapshot
from streams.dashboard.page import Page
from streams.dashboard.rates import EXPECTED, HITS, JUDGED, ROWS, SEEN, weighs_by_table
from streams.dashboard.recent import DECADES, FASTEST_S, PER_DECADE, SPAN_MS, Recent, quantile_s
from streams.dashboard.rounding import short
from streams.dashboard.timeline import BINS, STREAMS, WINDOWS
from streams.settings import Bucket

Rows = dict[str, list[Any]]  # a table by key, of which only changed rows travel
PER_BAR = 2  # bins of a delay are finer than bars can be
POINTS = 120  # of a line; of more snapshots, those of one bin are drawn as one
SAID_MS = 600_000  # so long the page says that a part of it has failed


def sections(page: Page, window: str, bucket: str) -> dict[str, Any]:
    """Return the parts of the page for a window and a bucket; where they are unknown, for those that fit."""
    names = list(page.columns)
    bucket = bucket if bucket in names else (names[0] if names else "")
    window = window if window in page.rates.timelines else _fitting(page)
    configured, cells = page.settings.buckets.get(bucket), page.rates.cells.get(bucket)
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
        "freshness": lambda: dict(page.loop.about),
        "chosen": lambda: about(bucket, configured, page.snapshots.newest.get(bucket)),
        "table": lambda: table(configured),
        "positions": lambda: positions(cells),
        "cells": lambda: observed(cells),
        "delays": lambda: {
            "join": histogram(page.rates.join_delays.get(bucket)),
            "click": histogram(page.click_delays.delays.get(bucket)),
            "followed": short(page.click_delays.followed.share),
        },
        "moves": lambda: moves(page, bucket, window),
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
    return next((name for name, width_ms in WINDOWS.items() if width_ms * (BINS - 4) >= needed), "all")


def _status(page: Page) -> dict[str, Any]:
    trouble, since = page.trouble or (None, None)
    return {
        "source": page.source_name,
        "trouble": trouble,
        "trouble_since": since,
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
        move = page.snapshots.moves[name][-1]
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
        for partition in group["partitions"]:
            seconds = [short(partition[name]) for name in ("lag_s", "rate_in", "rate_out", "catch_up_s")]
            kept_s = None if partition["retention_left_s"] is None else round(partition["retention_left_s"] / 60) * 60
            offsets = [partition[name] for name in ("committed", "end", "lost")]
            open_s = short(partition["transaction"]["age_s"]) if partition["transaction"] else None
            row = [
                partition["verdict"],
                partition["lag"],
                *seconds,
                kept_s,
                *offsets,
                open_s,
                partition["reason"],
                partition["note"],
            ]
            rows[f"{group['name']} {partition['topic']} {partition['partition']}"] = row
    return rows


def about(name: str, bucket: Bucket | None, snapshot: Snapshot | None) -> dict[str, Any]:
    """Return what a bucket is, as configured and as its newest snapshot says."""
    about: dict[str, Any] = {"name": name, "configured": bucket is not None}
    if bucket:
        about |= {"algorithm": bucket.algorithm, "dim": bucket.dim, "positions": bucket.positions}
    if snapshot:
        about |= {"algorithm": snapshot.algorithm, "dim": snapshot.dim, "positions": snapshot.positions}
        about |= {"alpha": snapshot.alpha, "ridge": short(snapshot.ridge), "phi": short(snapshot.phi)}
        if bucket and bucket.examination is not None and snapshot.examination_sha256:
            about["same_table"] = table_hash(bucket.examination) == snapshot.examination_sha256
    return about | {"weighed": weighs_by_table(str(about.get("algorithm")))}


def table(bucket: Bucket | None) -> list[list[float]] | None:
    """Return the examination table, a row per position, as far as it is defined; None without one."""
    if bucket is None or bucket.examination is None:
        return None
    chances = bucket.examination.round(4)
    if chances.ndim == 1:
        return [[float(chance)] for chance in chances]
    return [row[: number + 1].tolist() for number, row in enumerate(chances)]


def positions(cells: Recent | None) -> dict[str, Any] | None:
    """Return rows and clicks by position, and two expectations: of w·θᵀx, and of w alone for as many clicks; None for
    what is not known."""
    if cells is None:
        return None
    sums = np.maximum(cells.total().sum(axis=2), 0.0)  # below 0: taken back, and never read
    deepest = int(np.flatnonzero(sums[ROWS] > 0)[-1]) + 1 if (sums[ROWS] > 0).any() else 0
    sums = sums[:, :deepest]
    modelled = sums[JUDGED].sum() > sums[ROWS].sum() / 2  # else most rows came before the first θ
    expected = sums[EXPECTED] * sums[ROWS] / np.maximum(sums[JUDGED], 1)
    alone = sums[SEEN] * sums[HITS].sum() / max(sums[SEEN].sum(), 1e-9)
    return {
        "rows": np.rint(sums[ROWS]).astype(int).tolist(),
        "clicks": np.rint(sums[HITS]).astype(int).tolist(),
        "expected": [short(value) for value in expected.tolist()] if modelled else None,
        "alone": [short(value) for value in alone.tolist()] if sums[SEEN].any() else None,
        "since": cells.since_ms,
    }


def observed(cells: Recent | None) -> list[list[int]] | None:
    """Return [position, last click, rows, clicks] of every cell that was met."""
    if cells is None:
        return None
    total = cells.total()
    where = np.argwhere(total[ROWS] > 0)
    counts = [np.rint(total[field][where[:, 0], where[:, 1]]).astype(np.int64) for field in (ROWS, HITS)]
    rows: list[list[int]] = np.column_stack((where[:, 0] + 1, where[:, 1], *counts)).tolist()
    return rows


def histogram(recent: Recent | None) -> dict[str, Any] | None:
    """Return a delay's distribution: counts from its first to its last bin, and three quantiles in seconds."""
    if recent is None:
        return None
    counts = recent.total()
    bars = counts.reshape(-1, PER_BAR).sum(axis=1)
    used = np.flatnonzero(bars)
    if not len(used):
        return None
    first, last = int(used[0]), int(used[-1])
    return {
        "from_s": FASTEST_S * 10 ** (first * PER_BAR / PER_DECADE),
        "per_decade": PER_DECADE // PER_BAR,
        "counts": np.rint(bars[first : last + 1]).astype(int).tolist(),
        **{f"p{percent}": short(quantile_s(counts, percent / 100)) for percent in (50, 95, 99)},
        "decades": DECADES,
        "since": recent.since_ms,
    }


def moves(page: Page, name: str, window: str) -> dict[str, Any] | None:
    """Return when the bucket's snapshots of a window were published, how far θ moved at most, and its length."""
    history = page.snapshots.moves.get(name)
    if history is None:
        return None
    timeline = page.throughput.timelines[window]
    at, moved, norm = np.array(history, np.float64).T
    first = 0 if timeline.grow else min(int(np.searchsorted(at, timeline.start * timeline.width_ms)), len(at) - 1)
    starts = np.arange(first, len(at))
    if len(starts) > POINTS:
        bins = at[first:] // max(timeline.width_ms, (at[-1] - at[first]) / POINTS)
        starts = first + np.flatnonzero(np.diff(bins, prepend=-1.0))
    largest = np.fmax.reduceat(moved, starts)
    last = np.append(starts[1:], len(at)) - 1
    return {
        "at": at[last].astype(np.int64).tolist(),
        "moved": [short(value) for value in largest.tolist()],
        "norm": [short(value) for value in norm[last].tolist()],
        "count": page.snapshots.published[name],
    }
