"""Checks of values: a SettingsError names the key, the value and what is allowed."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

LARGEST = sys.float_info.max
HIDDEN = "***"  # in place of a value that may be a secret


class SettingsError(ValueError):
    """A setting that cannot be used: its key, its value and what is allowed, in one line."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key} = {shown(value)}: {allowed}")
        self.key, self.value, self.allowed = key, value, allowed


def shown(value: object, *, most: int = 200) -> str:
    """Return a value as an error may show it: without a login, and not without end.

    >>> shown("redis://:hunter 2@host:1/0"), shown({"password": "hunter2"})
    ("'redis://***@host:1/0'", 'a table of 1')
    """
    if isinstance(value, (dict, list)) and value:
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}"
    if isinstance(value, str):
        value = re.sub(r"^(\w+://)?.+@", rf"\1{HIDDEN}@", value, flags=re.DOTALL)
    try:
        text = without_logins(repr(value))
    except ValueError:  # a whole number of thousands of digits
        text = "a number too large to show"
    return text if len(text) <= most else f"{text[:most]}…"


def without_logins(text: str) -> str:
    """Return a text in which the login of any address is hidden.

    >>> without_logins("no Redis at rediss://bob:hunter2@host:1/0?password=hunter2")
    'no Redis at rediss://***@host:1/0?password=***'
    """

    def hidden(address: re.Match[str]) -> str:
        return f"{address[1] or ''}{HIDDEN}@" if address[1] or ":" in address[0] else address[0]

    text = re.sub(r"(\w+://)?[^\s'\"]*@", hidden, text)
    return re.sub(r"(?<=[?&])(\w*(?:password|username))=[^\s'\"&]*", rf"\1={HIDDEN}", text)


def check_number(
    key: str, value: object, *, least: float = -math.inf, most: float = math.inf, above: float = -math.inf
) -> None:
    """Refuse what is not a finite number within the limits."""
    # a whole number beyond every float is compared, never converted
    real = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
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
    if not isinstance(value, str) or value not in choices:
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
        named = re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]", host)
        if not named or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise SettingsError(key, value, "must be host:port, several with commas between, as in 127.0.0.1:9092")


def check_redis_url(key: str, value: str) -> None:
    """Refuse what is no address of a Redis, and an address that carries a password."""
    try:
        url = urlsplit(value)
        url.port  # noqa: B018 - reading it is the check
    except ValueError as error:  # what stands in the port's place may be a password, so nothing is shown
        raise SettingsError(key, HIDDEN, "must be redis://host:port/db, with a port up to 65535") from error
    if "@" in url.netloc or {"username", "password"} & parse_qs(url.query).keys():
        raise SettingsError(
            key, value, "must not carry a name or password; set redis_username and GLIMPSE_REDIS_PASSWORD"
        )
    if url.scheme not in ("redis", "rediss") or not url.hostname or not re.fullmatch(r"(/\d*)?", url.path):
        raise SettingsError(key, value, "must be redis://host:port/db, or rediss:// for TLS")


def check_file(key: str, value: str | None) -> None:
    """Refuse a file that is not there."""
    if value is not None and not Path(value).is_file():
        raise SettingsError(key, value, "there is no such file")


def check_keys(at: str, values: Mapping[str, object], known: Collection[str]) -> None:
    """Refuse a key that does not exist; a value that may be a secret comes as HIDDEN."""
    for key, value in values.items():
        if key not in known:
            raise SettingsError(at + key, value, f"no such key{did_you_mean(key, known)}")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, or nothing.

    >>> did_you_mean("wait", ["wait_s", "kafka"])
    '; did you mean wait_s?'
    """
    near = get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
