"""The running service: models, queue and server, from start to SIGTERM."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

from streams.events.job import EventQueue
from streams.parameters.job import open_parameters
from streams.rank.catalogue_file import read_encoder
from streams.rank.job.catalogues import CatalogueFile, CatalogueSource, CatalogueTopic
from streams.rank.job.models import Models
from streams.rank.job.server import RankServer
from streams.rank.job.service import RankService, ServiceOptions
from streams.settings import Settings

SWITCH_S = 0.001  # a list waits no longer for the threads that write to Kafka and look for snapshots; Python's is 0.005


def rank_service(
    settings: Settings,
    *,
    source: str | None = None,
    catalogue: Path | None = None,
    encoder: Path | None = None,
    refresh_s: float = 1.0,
    options: ServiceOptions | None = None,
) -> RankService:
    """Return a service that reads snapshots from ``source`` (else Redis if set, else Kafka) and writes to Kafka.

    ``catalogue`` is a file, or ``kafka`` for the topic.
    """
    parameters = open_parameters(source or ("redis" if settings.redis else "kafka"), settings)
    coder = None if encoder is None else read_encoder(encoder)
    shop: CatalogueSource | None = None
    if catalogue is not None:
        on_topic = str(catalogue) == "kafka"
        shop = CatalogueTopic(settings, encoder=coder) if on_topic else CatalogueFile(catalogue, encoder=coder)
    models = Models(settings.buckets, parameters, catalogue=shop, refresh_s=refresh_s)
    return RankService(settings, models, EventQueue(settings), options=options)


def serve(server: RankServer, *, say: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code, 1 when events were lost at the end."""
    sys.setswitchinterval(SWITCH_S)
    done = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    with server:
        say(f"serves {server.url}/rank; the interface is at {server.url}/openapi.json")
        while not done.wait(1.0):
            pass
    server.service.close()
    return 1 if server.service.queue.lost else 0
