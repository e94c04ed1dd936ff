"""What several pipeline tests share beside the servers: a broker with access rules, a browser, readers of lag."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from browser import Browser
from by_hand import SHORT

from streams.lag.job import LagReader
from streams.local.kafka import LocalKafka
from streams.settings import Settings


@pytest.fixture(scope="session")
def strict_broker(programs, tmp_path_factory) -> Iterator[LocalKafka]:
    """A broker that knows access rules, all open at first, and compacts at once."""
    broker = LocalKafka(tmp_path_factory.mktemp("strict-kafka"))
    broker.config |= {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "log.cleaner.backoff.ms": "200",
    }
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def browser(programs, tmp_path_factory) -> Iterator[Browser]:
    """A headless Chromium."""
    one = Browser(tmp_path_factory.mktemp("chromium"))
    yield one
    one.close()


@pytest.fixture
def reader_of() -> Iterator[Callable[..., LagReader]]:
    """Makes readers with a short window."""
    readers = []

    def make(settings: Settings, *groups: str) -> LagReader:
        readers.append(LagReader(settings, groups=groups, window=SHORT))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
