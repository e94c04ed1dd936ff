"""Public click logs as result pages, two logs numbered alike: one to learn from, one to judge on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from learner.experiments.day_one_logs import Pages
from streams.offline.logs import LogError, Logs, read_logs


def read_pages(path: Path) -> Logs:
    """Return a log whose pages are all equally long and belong to queries."""
    logs = read_logs(path)
    if logs.queries is None:
        raise LogError(f"{logs.name} has no 'query' column; an item of a page means something only with its query")
    if (logs.sizes != logs.positions).any():
        short = int(np.argmin(logs.sizes))
        raise LogError(f"{logs.place(short)} has {logs.sizes[short]} items; all pages must have {logs.positions}")
    return logs


def numbered_together(*logs: Logs) -> list[Pages]:
    """Return the pages of several logs; the same query and item have the same number in all."""
    pairs: dict[tuple[str, object], int] = {}
    queries: dict[str, int] = {}
    found = []
    for log in logs:
        names = [log.query_ids[number] for number in np.asarray(log.queries).tolist()]
        rows = [
            [pairs.setdefault((name, log.item_ids[item]), len(pairs)) for item in items]
            for name, items in zip(names, log.items.tolist(), strict=True)
        ]
        asked = [queries.setdefault(name, len(queries)) for name in names]
        found.append(Pages(np.array(rows), log.clicks, np.array(asked)))
    return found
