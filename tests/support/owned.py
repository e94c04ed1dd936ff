"""An owner of a samples partition whose records a test gives it by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streams.learn.job.owner import PartitionOwner
from streams.learn.job.store import Store
from streams.logs import LogRecord


def nobody_reads(partition: int, offset: int) -> None:
    """Seek for a reader that does not exist."""


def one_by_one(calls: Sequence[Callable[[], None]]) -> None:
    """Make the calls of a job in one thread."""
    for call in calls:
        call()


def owner_of(store: Store, partition: int = 0, **options: Any) -> PartitionOwner:
    """Return an owner without a reader."""
    return PartitionOwner(store, partition, seek=nobody_reads, **options)


def feed(owner: PartitionOwner, records: Sequence[LogRecord]) -> None:
    """Have an owner learn records that continue its log."""
    owner.pending.seek(owner.position)
    owner.pending.fetched(records)
    owner.checkpoint(records[-1].offset)


def catch_up(owner: PartitionOwner) -> None:
    """Have an owner that is restored learn some of what is behind the head of its log."""
    if not owner.ready:
        owner.maintain()  # sends the reader to the position
    owner.maintain()
