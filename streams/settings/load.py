"""Where settings come from: the environment first, then glimpse.toml, then the servers that ``glimpse up`` runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from learner.browsing import MAX_POSITIONS, typical_table
from schemas.json_text import parse_json
from streams.settings.bucket import POSITIONS, Bucket
from streams.settings.checks import SettingsError, check_count
from streams.settings.examination import ExaminationError, read_examination
from streams.settings.settings import Settings
from streams.settings.sources import SECRETS, from_environment, from_toml
from streams.settings.split import split_of

UP_FOLDER = Path(".glimpse")  # in the folder that glimpse up was started in


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings: environment first, then ``path``, else ``GLIMPSE_CONFIG``, else ./glimpse.toml if there.

    Servers that neither names are those that ``glimpse up`` has running in this folder, if there are any.
    """
    chosen = path or (Path(environ["GLIMPSE_CONFIG"]) if environ.get("GLIMPSE_CONFIG") else None)
    file = chosen or Path("glimpse.toml")
    kinds = {
        part.name: {"int": int, "float": float}.get(str(part.type), str)
        for part in fields(Settings)
        if part.name not in ("buckets", "split", *SECRETS)
    }
    values: dict[str, Any] = {}
    if chosen is not None or file.exists():
        bucket_keys = [part.name for part in fields(Bucket) if part.name != "name"]
        values = from_toml(file, (*kinds, "buckets", "split"), bucket_keys)
    origins = dict.fromkeys(values, f"{file.name}: ")
    stated = from_environment(environ, kinds)
    origins |= dict.fromkeys(stated, "GLIMPSE_")
    try:
        buckets = {name: bucket_of(name, table) for name, table in values.pop("buckets", {}).items()}
        split = split_of(values.pop("split", {}))
        return Settings(**(running_servers() | values | stated), buckets=buckets, split=split)
    except SettingsError as error:
        origin = origins.get(error.key.partition(".")[0], "")
        key = error.key.upper() if origin == "GLIMPSE_" else error.key
        raise SettingsError(origin + key, error.value, error.allowed) from error


def bucket_of(name: str, values: dict[str, Any]) -> Bucket:
    """Return a bucket from its table in glimpse.toml; K follows from the examination table if it is not said.

    ``examination = "default"`` is the typical table for the bucket's K, whose hash snapshots carry as any other's.
    """
    if isinstance(values.get("examination"), Path):
        file = values["examination"]
        try:
            values["examination"] = read_examination(file)
        except ExaminationError as error:
            raise SettingsError(f"buckets.{name}.examination", str(file), str(error)) from error
    if isinstance(values.get("examination"), str):  # only the typical one is left as text
        positions = values.setdefault("positions", POSITIONS)
        check_count(f"buckets.{name}.positions", positions, least=1, most=MAX_POSITIONS)
        table = typical_table(positions)
        values["examination"] = table[:, 0] if values.get("algorithm") == "pbm-ucb" else table
    if isinstance(values.get("examination"), (list, np.ndarray)):
        values.setdefault("positions", len(values["examination"]))
    return Bucket(name, **values)


def running_servers() -> dict[str, str]:
    """Return the addresses by key, kafka and redis; nothing when none were started there, or they were stopped."""
    file = _file(UP_FOLDER)
    try:
        found = parse_json(file.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(str(file), None, f"cannot be read: {error}; run glimpse up again") from error
    if not isinstance(found, dict) or not found.keys() <= {"kafka", "redis"}:
        raise SettingsError(str(file), None, "must hold the addresses of kafka and redis; run glimpse up again")
    return found


def write_running(folder: Path, addresses: dict[str, str] | None) -> None:
    """Note where the servers of ``folder`` are; None when they are stopped."""
    if addresses is None:
        _file(folder).unlink(missing_ok=True)
    else:
        _file(folder).write_text(json.dumps(addresses) + "\n")


def _file(folder: Path) -> Path:
    return folder / "running.json"
