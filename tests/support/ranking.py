"""A ranking service on a free port for the tests, and what they say to it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kafka import TopicPartition

from schemas.codec import Codec
from schemas.records import Click, Impression
from streams.broker import consumer
from streams.rank.job import RankServer, rank_service
from streams.settings import Settings, Topics


class Said(NamedTuple):
    """An answer: its status, what it holds, and its headers."""

    status: int
    found: Any
    headers: dict[str, str]


class Client:
    """One connection to a service, kept open."""

    def __init__(self, server: RankServer, *, timeout_s: float = 20.0) -> None:
        self.wire = http.client.HTTPConnection(server.host, server.port, timeout=timeout_s)
        self.said_at = time.monotonic()

    def say(self, method: str, path: str, body: object = None, **headers: str) -> Said:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if time.monotonic() - self.said_at > 2:
            self.wire.close()  # the server may be about to hang up on who is silent
        self.said_at = time.monotonic()
        self.wire.request(method, path, data, {"Content-Type": "application/json", **headers})
        answer = self.wire.getresponse()
        text = answer.read()
        kind = answer.headers["Content-Type"] or ""
        return Said(answer.status, json.loads(text) if "json" in kind else text.decode(), dict(answer.headers))

    def post(self, path: str, body: object, **headers: str) -> Said:
        return self.say("POST", path, body, **headers)

    def get(self, path: str, **headers: str) -> Said:
        return self.say("GET", path, **headers)

    def close(self) -> None:
        self.wire.close()


@contextmanager
def serving(settings: Settings, *, token: str | None = None, **options: Any) -> Iterator[RankServer]:
    """Serve until the end of a ``with``."""
    service = rank_service(settings, **options)
    try:
        with RankServer(service, token=token) as server:
            yield server
    finally:
        service.queue.close(0)
        service.models.close()


def write_npz(file: Path, *, items: int = 400, columns: int = 9, seed: int = 0, first: int = 0) -> Path:
    """Write a catalogue of random items, whose contexts are (1, item)."""
    random = np.random.default_rng(seed)
    features = random.uniform(-0.5, 0.5, (items, columns)).astype(np.float32)
    half = file.with_name(f"{file.name}.half.npz")
    np.savez(
        half,
        items=np.arange(first, first + items),
        features=features,
        recipe=np.array(["constant", "item"]),
        **{"tag:kind": np.array(["hat", "shoe"])[np.arange(items) % 2]},
    )
    half.replace(file)
    return file


def logged(
    settings: Settings, *, within_s: float = 60.0, wanted: int = 0, different: bool = False
) -> tuple[list[Impression], list[Click]]:
    """Return what the topics hold, once they hold as many events as are wanted, or as many different ones."""
    end = time.monotonic() + within_s
    topics, codec = Topics.of(settings), Codec()
    with closing(consumer(settings)) as reader:
        places = [TopicPartition(topic, n) for topic in topics.events for n in range(settings.partitions)]
        reader.assign(places)
        reader.seek_to_beginning()
        found: list[Impression | Click] = []
        while time.monotonic() < end and (not wanted or len(set(found) if different else found) < wanted):
            polled = reader.poll(300)
            found += [codec.decode(record.value) for records in polled.values() for record in records]
            if not polled and not wanted:
                break
    return [one for one in found if isinstance(one, Impression)], [one for one in found if isinstance(one, Click)]
