"""The beginning of a replay: a new one, or an interrupted one that goes on up to where it began to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.json_text import parse_json
from streams.logs import replace_file
from streams.replay.plan import ReplayError, ReplayPlan

_FILE = "replay.json"


def begin(plan: ReplayPlan, folder: Path) -> tuple[ReplayPlan, list[str]]:
    """Return the plan to carry out in ``folder``, and what should be said about it.

    Logs that are written to end elsewhere at every look, so the directory keeps where they ended when the replay began:
    what was interrupted goes on up to there. After a finished replay a new one begins, unless it would be the same.
    """
    file = folder / _FILE
    saved = _load(file)
    if saved is not None and not saved["done"]:
        ranges = saved["ranges"]
        grown = ranges.keys() == plan.ranges.keys() and all(ranges[at][1] <= plan.ranges[at][1] for at in ranges)
        if saved["asked"] != plan.asked or not grown:
            raise ReplayError(
                f"{folder} holds an unfinished replay of something else (another source, range or parameters); take "
                f"another --out, or delete {file} to begin anew"
            )
        more = sum(plan.ranges[at][1] - ranges[at][1] for at in ranges)
        notes = [f"the replay in {folder} goes on; it ends before the {more:,} records that came since"] if more else []
        return replace(plan, ranges=ranges), notes
    if saved is None or (saved["asked"], saved["ranges"]) != (plan.asked, plan.ranges):
        for part in folder.glob("partition-*.replay"):
            part.unlink()
        _save(file, plan, done=False)
    return plan, []


def complete(plan: ReplayPlan, folder: Path) -> None:
    """Note that all of a plan was carried out."""
    _save(folder / _FILE, plan, done=True)


def _save(file: Path, plan: ReplayPlan, *, done: bool) -> None:
    ranges = [[*place, *bounds] for place, bounds in plan.ranges.items()]
    replace_file(file, json.dumps({"asked": plan.asked, "ranges": ranges, "done": done}).encode())


def _load(file: Path) -> dict[str, Any] | None:
    try:
        found = parse_json(file.read_bytes())
        ranges = {(topic, number): (start, stop) for topic, number, start, stop in found["ranges"]}
        return {"asked": found["asked"], "ranges": ranges, "done": found["done"]}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ReplayError(f"{file} cannot be read ({error}); delete it to begin anew") from error
