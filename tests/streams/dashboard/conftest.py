"""A real browser for the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser


@pytest.fixture(scope="session")
def browser(programs, tmp_path_factory) -> Iterator[Browser]:
    """A headless Chromium."""
    one = Browser(tmp_path_factory.mktemp("chromium"))
    yield one
    one.close()
