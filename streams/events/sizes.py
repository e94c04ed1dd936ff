"""How large an id, an event, a list and a record may be."""

from __future__ import annotations

MAX_RECORD_BYTES = 512 * 1024


RECORD_BYTES = 512  # header, bucket name, dimension and the lengths of 13 columns


LIST_BYTES = 1 + 1 + 8 + 4 + 8 + 4 + 8 + 4  # the columns with an entry per list, and the length of its id


MAX_ID_BYTES = 256  # of a list, a session, a user or a bucket


SPARE_BYTES = 16 * 1024  # of an event, key included, beyond the items and contexts of the longest list


def list_bytes(rows: int, dim: int) -> int:
    """Return how many bytes a list of ``rows`` rows takes in a record, at most."""
    return rows * (18 + 4 * dim) + LIST_BYTES + MAX_ID_BYTES


def event_bytes(rows: int, dim: int) -> int:
    """Return how many bytes the key and value of an event may have where lists have at most ``rows`` rows."""
    return rows * (8 + 4 * dim) + SPARE_BYTES
