"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file as a whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    beside.replace(path)
