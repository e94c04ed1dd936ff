"""The panels of one bucket: positions, examination, delays, movement of θ."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from learner.browsing import table_hash
from schemas.records import Snapshot
from streams.dashboard.rates import EXPECTED, HITS, JUDGED, ROWS, SEEN, WITH_TABLE
from streams.dashboard.recent import DECADES, FASTEST_S, PER_DECADE, Recent, quantile_s
from streams.dashboard.rounding import short
from streams.settings import Bucket

PER_BAR = 2  # bins of a delay are finer than bars can be
POINTS = 120  # of a line; of more snapshots, those of one bin are drawn as one

if TYPE_CHECKING:
    from streams.dashboard.page import Page


def detail(page: Page, name: str, window: str) -> dict[str, Callable[[], Any]]:
    """Return how to make the sections of the page that belong to the chosen bucket."""
    bucket, snapshot = page.settings.buckets.get(name), page.snapshots.newest.get(name)
    cells = page.rates.cells.get(name)
    return {
        "chosen": lambda: about(name, bucket, snapshot),
        "table": lambda: table(bucket),
        "positions": lambda: positions(cells),
        "cells": lambda: observed(cells),
        "delays": lambda: {
            "join": histogram(page.rates.join_delays.get(name)),
            "click": histogram(page.click_delays.delays.get(name)),
            "followed": short(page.click_delays.kept_share),
        },
        "moves": lambda: moves(page, name, window),
    }


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
    return about | {"weighed": about.get("algorithm") in WITH_TABLE}


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
    found: NDArray[np.int64] = np.column_stack((where[:, 0] + 1, where[:, 1], *counts))
    rows: list[list[int]] = found.tolist()
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
        "p50": short(quantile_s(counts, 0.5)),
        "p95": short(quantile_s(counts, 0.95)),
        "p99": short(quantile_s(counts, 0.99)),
        "decades": DECADES,
        "since": recent.since_ms,
    }


def moves(page: Page, name: str, window: str) -> dict[str, Any] | None:
    """Return when the bucket's snapshots of a window were published, how far θ moved at most, and its length."""
    found = page.snapshots.moves.get(name)
    if found is None:
        return None
    timeline = page.throughput.timelines[window]
    at, moved, norm = np.array(found.newest, np.float64).T
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
        "count": found.count,
    }
