"""Where settings come from: the environment first, then glimpse.toml, then the servers that ``glimpse up`` runs.

Secrets come only from the environment or from files.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from learner import ALGORITHMS
from learner.browsing import MAX_POSITIONS, typical_table
from schemas.json_text import parse_json
from streams.settings.bucket import POSITIONS, Bucket, ExaminationError, SplitSettings, read_examination
from streams.settings.checks import HIDDEN, SettingsError, check_count, check_keys, did_you_mean
from streams.settings.log_pair import EVENTS
from streams.settings.settings import PATHS, Settings

UP_FOLDER, RUNNING = Path(".glimpse"), "running.json"  # in the folder that glimpse up was started in
DEFAULT = "default"  # instead of a table's file: the typical one; a file of this name is ./default
OTHERS = ("GLIMPSE_CONFIG", "GLIMPSE_CACHE")  # read elsewhere: where glimpse.toml is, where jars are kept
KUBERNETES = r"_SERVICE_(HOST|PORT)|_PORT_\d+_"  # what it calls variables of a service called glimpse-something
TABLES = ("buckets", "split", "registry")
SECRETS = ("kafka_password", "kafka_key_password", "redis_password")
KINDS: Mapping[str, type[int | float | str]] = {  # of all other settings
    part.name: {"int": int, "float": float}.get(str(part.type), str)
    for part in fields(Settings)
    if part.name not in (*TABLES, *SECRETS)
}


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings: environment first, then ``path``, else ``GLIMPSE_CONFIG``, else ./glimpse.toml if there.

    Servers that neither names are those that ``glimpse up`` has running in this folder, if there are any.
    """
    chosen = path or (Path(environ["GLIMPSE_CONFIG"]) if environ.get("GLIMPSE_CONFIG") else None)
    file = chosen or Path("glimpse.toml")
    values = from_toml(file) if chosen is not None or file.exists() else {}
    stated = from_environment(environ)
    origins = dict.fromkeys(values, f"{file.name}: ") | dict.fromkeys(stated, "GLIMPSE_")
    tables = {key: values.pop(key, {}) for key in TABLES}
    try:
        named = checked_table("buckets", tables["buckets"], "must be tables [buckets.<name>]")
        split = checked_table("split", tables["split"], "must be a table [split]")
        check_keys("split.", split, [part.name for part in fields(SplitSettings)])
        return Settings(
            **(running_servers() | values | stated),
            buckets={name: bucket_of(name, table, file.parent) for name, table in named.items()},
            split=SplitSettings(**split),
            registry=registry_of(tables["registry"], file.parent),
        )
    except SettingsError as error:
        origin = origins.get(error.key.partition(".")[0], "")
        key = error.key.upper() if origin == "GLIMPSE_" else error.key
        raise SettingsError(origin + key, error.value, error.allowed) from error


def from_toml(file: Path) -> dict[str, Any]:
    """Return what ``file`` says, its tables as they are; its relative paths start at its own folder."""
    try:
        content = tomllib.loads(file.read_text())
    except OSError as error:
        raise SettingsError("glimpse.toml", str(file), f"cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise SettingsError("glimpse.toml", str(file), "is nested too deeply") from error
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise SettingsError("glimpse.toml", str(file), f"is not TOML: {error}") from error
    values: dict[str, Any] = {}
    for key, value in content.items():
        secret = key.removesuffix("_file")
        if key in SECRETS:
            names = f"GLIMPSE_{key.upper()}, GLIMPSE_{key.upper()}_FILE or {key}_file"
            raise SettingsError(f"{file.name}: {key}", HIDDEN, f"secrets do not belong here; use {names}")
        if key in PATHS and isinstance(value, str):
            values[key] = str(file.parent / value)
        elif secret in SECRETS and isinstance(value, str):
            values[secret] = read_secret(f"{file.name}: {key}", file.parent / value)
        else:
            check_keys(f"{file.name}: ", {key: HIDDEN}, (*KINDS, *TABLES))
            values[key] = value
    return values


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what the ``GLIMPSE_*`` variables say, each turned into its key's kind of value."""
    values: dict[str, Any] = {}
    for name, text in environ.items():
        key = name.removeprefix("GLIMPSE_").lower()
        secret = key.removesuffix("_file")
        if not name.startswith("GLIMPSE_") or name in OTHERS:
            continue
        if secret in SECRETS:
            if secret in values:
                allowed = f"is given twice; keep one of {name.removesuffix('_FILE')} and …_FILE"
                raise SettingsError(name, HIDDEN, allowed)
            values[secret] = read_secret(name, Path(text)) if key != secret else text
        elif key in KINDS:
            try:
                values[key] = KINDS[key](text)
            except ValueError as error:
                wanted = "a whole number" if KINDS[key] is int else "a number"
                raise SettingsError(name, text, f"must be {wanted}") from error
        elif not re.search(KUBERNETES, name) and not text.startswith(("tcp://", "udp://")):
            known = [f"GLIMPSE_{other.upper()}" for other in (*KINDS, *SECRETS)]
            raise SettingsError(name, HIDDEN, f"no such variable{did_you_mean(name, known)}")
    return values


def checked_table(at: str, value: object, wanted: str) -> dict[str, Any]:
    """Return a TOML table as a dict, or refuse what is none."""
    if not isinstance(value, dict):
        raise SettingsError(at, value, wanted)
    return dict(value)


def bucket_of(name: str, table: object, folder: Path) -> Bucket:
    """Return a bucket from its table in glimpse.toml; K follows from the examination table if it is not said.

    ``examination = "default"`` is the typical table for the bucket's K, whose hash snapshots carry as any other's. Any
    other text is a file in ``folder``.
    """
    at = f"buckets.{name}"
    values = checked_table(at, table, "must be a table, as in [buckets.main]")
    kind = ALGORITHMS.get(str(values.get("algorithm")))
    own = () if kind is None else tuple(kind.own_options)
    shared = {part.name for part in fields(Bucket)} - {"name", "options"}
    check_keys(f"{at}.", dict.fromkeys(values, HIDDEN), {*shared, *own})
    options = {key: values.pop(key) for key in own if key in values}
    examination = values.get("examination")
    if examination == DEFAULT:
        positions = values.setdefault("positions", POSITIONS)
        check_count(f"{at}.positions", positions, least=1, most=MAX_POSITIONS)
        chances = typical_table(positions)
        values["examination"] = chances[:, 0] if kind is not None and kind.table_axes == 1 else chances
    elif isinstance(examination, str):
        try:
            values["examination"] = read_examination(folder / examination)
        except ExaminationError as error:
            raise SettingsError(f"{at}.examination", str(folder / examination), str(error)) from error
    if isinstance(values.get("examination"), (list, np.ndarray)):
        values.setdefault("positions", len(values["examination"]))
    return Bucket(name, **values, options=options)


def registry_of(table: object, folder: Path) -> dict[int, str]:
    """Return the schema of each id of a schema registry; the paths of files start at ``folder``."""
    wanted = 'must be ids of a schema registry, as in 7 = "impressions"'
    schemas = checked_table("registry", table, wanted)
    if not all(key.isdecimal() and isinstance(name, str) for key, name in schemas.items()):
        raise SettingsError("registry", table, wanted)
    return {int(key): name if name in EVENTS else str(folder / name) for key, name in schemas.items()}


def read_secret(name: str, file: Path) -> str:
    """Return a secret from a file, without the line's end."""
    try:
        secret = file.read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no possible name of a file
        raise SettingsError(name, str(file), f"cannot be read: {error}") from error
    if not secret:
        raise SettingsError(name, str(file), "is empty; it must hold the secret")
    return secret


def running_servers() -> dict[str, str]:
    """Return the addresses by key, kafka and redis; nothing when none were started there, or they were stopped."""
    file = UP_FOLDER / RUNNING
    try:
        addresses = parse_json(file.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(str(file), None, f"cannot be read: {error}; run glimpse up again") from error
    if not isinstance(addresses, dict) or not addresses.keys() <= {"kafka", "redis"}:
        raise SettingsError(str(file), None, "must hold the addresses of kafka and redis; run glimpse up again")
    return addresses


def write_running(folder: Path, addresses: dict[str, str] | None) -> None:
    """Note where the servers of ``folder`` are; None when they are stopped."""
    if addresses is None:
        (folder / RUNNING).unlink(missing_ok=True)
    else:
        (folder / RUNNING).write_text(json.dumps(addresses) + "\n")
