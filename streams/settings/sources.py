"""Plain values by key, from glimpse.toml or the environment; secrets only from the environment or from files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from streams.settings.checks import HIDDEN, SettingsError, did_you_mean

SECRETS = ("kafka_password", "kafka_key_password", "redis_password")
PATHS = ("kafka_ca", "kafka_cert", "kafka_key", "redis_ca", "redis_cert", "redis_key")
OTHERS = ("GLIMPSE_CONFIG", "GLIMPSE_CACHE")  # read elsewhere: where glimpse.toml is, where jars are kept


def from_toml(file: Path, known: Collection[str], bucket_keys: Collection[str]) -> dict[str, Any]:
    """Return what ``file`` says; its relative paths start at its own folder."""
    try:
        found = tomllib.loads(file.read_text())
    except OSError as error:
        raise SettingsError("glimpse.toml", str(file), f"cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise SettingsError("glimpse.toml", str(file), "is nested too deeply") from error
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise SettingsError("glimpse.toml", str(file), f"is not TOML: {error}") from error
    here = file.parent
    values: dict[str, Any] = {}
    for key, value in found.items():
        secret = key.removesuffix("_file")
        if key in SECRETS:
            names = f"GLIMPSE_{key.upper()}, GLIMPSE_{key.upper()}_FILE or {key}_file"
            raise SettingsError(f"{file.name}: {key}", HIDDEN, f"secrets do not belong here; use {names}")
        if key in PATHS and isinstance(value, str):
            values[key] = str(here / value)
        elif secret in SECRETS and isinstance(value, str):
            values[secret] = read_secret(f"{file.name}: {key}", here / value)
        elif key in known:
            values[key] = value
        else:
            raise SettingsError(f"{file.name}: {key}", HIDDEN, f"no such key{did_you_mean(key, known)}")
    values["buckets"] = {
        name: bucket_table(f"{file.name}: buckets.{name}", table, bucket_keys, here)
        for name, table in tables(f"{file.name}: buckets", values.get("buckets", {})).items()
    }
    return values


def from_environment(environ: Mapping[str, str], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return what the ``GLIMPSE_*`` variables say, each turned into its key's kind of value."""
    values: dict[str, Any] = {}
    for name, text in environ.items():
        key = name.removeprefix("GLIMPSE_").lower()
        secret = key.removesuffix("_file")
        if not name.startswith("GLIMPSE_") or name in OTHERS:
            continue
        if secret in SECRETS:
            if secret in values:
                raise SettingsError(
                    name, HIDDEN, f"is given twice; keep one of {name.removesuffix('_FILE')} and …_FILE"
                )
            values[secret] = read_secret(name, Path(text)) if key != secret else text
        elif key in kinds:
            values[key] = converted(name, text, kinds[key])
        elif not of_kubernetes(name, text):
            known = [f"GLIMPSE_{other.upper()}" for other in (*kinds, *SECRETS)]
            raise SettingsError(name, HIDDEN, f"no such variable{did_you_mean(name, known)}")
    return values


DEFAULT = "default"  # in the place of a table's file: the typical one; a file of this name is ./default


def bucket_table(at: str, table: object, known: Collection[str], here: Path) -> dict[str, Any]:
    """Return one bucket's values, its table's path made absolute."""
    values = tables(at, table, leaves=True)
    for key in values:
        if key not in known:
            raise SettingsError(f"{at}.{key}", HIDDEN, f"no such key{did_you_mean(key, known)}")
    if isinstance(values.get("examination"), str) and values["examination"] != DEFAULT:
        values["examination"] = here / values["examination"]
    return values


def tables(at: str, value: object, *, leaves: bool = False) -> dict[str, Any]:
    """Return a TOML table as a dict, or refuse what is none."""
    if not isinstance(value, dict):
        raise SettingsError(
            at, value, "must be a table, as in [buckets.main]" if leaves else "must be tables [buckets.<name>]"
        )
    return dict(value)


def converted(name: str, text: str, kind: type) -> object:
    """Return a variable's text as its kind of value."""
    try:
        return kind(text)
    except ValueError as error:
        wanted = {int: "a whole number", float: "a number"}[kind]
        raise SettingsError(name, text, f"must be {wanted}") from error


def read_secret(name: str, file: Path) -> str:
    """Return a secret from a file, without the line's end."""
    try:
        secret = file.read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no possible name of a file
        raise SettingsError(name, str(file), f"cannot be read: {error}") from error
    if not secret:
        raise SettingsError(name, str(file), "is empty; it must hold the secret")
    return secret


def of_kubernetes(name: str, text: str) -> bool:
    """Return whether a variable is one that Kubernetes makes for a service called glimpse-something."""
    return bool(re.search(r"_SERVICE_(HOST|PORT)|_PORT_\d+_", name)) or text.startswith(("tcp://", "udp://"))
