"""Where the servers are that ``glimpse up`` has running in a folder, so that the commands there find them again."""

from __future__ import annotations

import json
from pathlib import Path

from schemas.json_text import parse_json
from streams.settings.checks import SettingsError

UP_FOLDER = Path(".glimpse")  # in the folder that glimpse up was started in


def running_servers(folder: Path = UP_FOLDER) -> dict[str, str]:
    """Return the addresses by key, kafka and redis; nothing when none were started there, or they were stopped."""
    file = _file(folder)
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
