"""Readers of lag."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from by_hand import SHORT

from streams.lag import Window
from streams.lag.job import LagReader
from streams.settings import Settings


@pytest.fixture
def reader_of() -> Iterator[Callable[..., LagReader]]:
    """Makes readers with a short window."""
    readers = []

    def make(settings: Settings, *groups: str, window: Window = SHORT) -> LagReader:
        readers.append(LagReader(settings, groups=groups, window=window))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
