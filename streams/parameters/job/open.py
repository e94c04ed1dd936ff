"""The stores of snapshots, and the choice of one by address or settings."""

from __future__ import annotations

from urllib.parse import urlsplit

from streams.parameters.job.kafka import KafkaParameters
from streams.parameters.job.redis import RedisParameters
from streams.parameters.stores import DirectoryParameters, SnapshotStore
from streams.settings import Settings, load

# A new store is one file, and its class here. Without an online store rankers read the first one.
STORES: tuple[type[SnapshotStore], ...] = (KafkaParameters, RedisParameters, DirectoryParameters)


class SourceUnknown(ValueError):
    """An address of no store."""


def open_parameters(address: str, settings: Settings | None = None) -> SnapshotStore:
    """Return the store of that name in the settings, or at that URL: ``kafka://host:port``, a directory's path, …"""
    try:
        scheme = urlsplit(address).scheme
    except ValueError as error:
        raise SourceUnknown(f"snapshots come from {_stores()}, and this is no address: {error}") from error
    for store in STORES:
        if store.name and address == store.name:
            return store.at(address, settings or load())
    for store in STORES:
        if scheme in store.schemes:
            return store.at(address, settings or Settings())
    raise SourceUnknown(f"snapshots come from {_stores()}, got {address!r}")


def _stores() -> str:
    *others, last = [store.name or "a directory" for store in STORES]
    return f"{', '.join(others)} or {last}"


def online_address(settings: Settings) -> str | None:
    """Return the address of the store that learners fill next to Kafka, or None when the settings name none."""
    return next((address for store in STORES if (address := store.online(settings))), None)


def online_store(settings: Settings) -> SnapshotStore | None:
    """Return the store that learners fill next to Kafka, or None when the settings name none."""
    address = online_address(settings)
    return None if address is None else open_parameters(address, settings)


def serving_store(settings: Settings) -> str:
    """Return the name of the store that rankers read by default: the online store, or else Kafka."""
    return next((store.name for store in STORES if store.online(settings)), STORES[0].name)
