"""Checks of values: a SettingsError names the key, the value and what is allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit


class SettingsError(ValueError):
    """A setting that cannot be used: its key, its value and what is allowed, in one line."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key} = {value!r}: {allowed}")
        self.key, self.value, self.allowed = key, value, allowed


def check_number(
    key: str, value: object, *, least: float = -math.inf, most: float = math.inf, above: float = -math.inf
) -> None:
    """Refuse what is not a finite number within the limits."""
    real = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not (real and least <= value <= most and value > above):  # type: ignore[operator]
        limits = [(least, "at least"), (above, "above"), (most, "at most")]
        said = [f"{word} {limit:g}" for limit, word in limits if math.isfinite(limit)]
        raise SettingsError(key, value, " ".join(["must be a number", " and ".join(said)]).strip())


def check_count(key: str, value: object, *, least: int, most: int) -> None:
    """Refuse what is not a whole number within the limits."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SettingsError(key, value, f"must be a whole number from {least} to {most}")


def check_choice(key: str, value: object, choices: Collection[str]) -> None:
    """Refuse what is not one of the choices."""
    if value not in choices:
        raise SettingsError(key, value, f"must be one of {', '.join(choices)}{did_you_mean(value, choices)}")


def check_name(key: str, value: object, *, least: int = 1) -> None:
    """Refuse what cannot be part of a topic's name or a record's key."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]*", value) or not least <= len(value) <= 100:
        raise SettingsError(key, value, "must be made of letters, digits, dot, dash and underscore, at most 100")


def check_servers(key: str, value: object) -> None:
    """Refuse what is not host:port, or several of them with commas between."""
    servers = value.split(",") if isinstance(value, str) else [""]
    for server in servers:
        host, _, port = server.rpartition(":")
        if (
            not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]", host)
            or not port.isdecimal()
            or not 0 < int(port) < 65536
        ):
            raise SettingsError(key, value, "must be host:port, several with commas between, as in 127.0.0.1:9092")


def check_redis_url(key: str, value: str) -> None:
    """Refuse what is no address of a Redis, and an address that carries a password."""
    try:
        url = urlsplit(value)
        url.port  # noqa: B018 - reading it is the check
    except ValueError as error:
        raise SettingsError(key, value, f"must be redis://host:port/db: {error}") from error
    if url.password or url.username:
        hidden = urlunsplit(url._replace(netloc="***@" + url.netloc.rpartition("@")[2]))
        raise SettingsError(
            key, hidden, "must not carry a name or password; set redis_username and GLIMPSE_REDIS_PASSWORD"
        )
    if url.scheme not in ("redis", "rediss") or not url.hostname or not re.fullmatch(r"(/\d*)?", url.path):
        raise SettingsError(key, value, "must be redis://host:port/db, or rediss:// for TLS")


def check_file(key: str, value: str | None) -> None:
    """Refuse a file that is not there."""
    if value is not None and not Path(value).is_file():
        raise SettingsError(key, value, "there is no such file")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, or nothing.

    >>> did_you_mean("wait", ["wait_s", "kafka"])
    '; did you mean wait_s?'
    """
    near = get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
