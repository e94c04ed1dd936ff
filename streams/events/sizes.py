"""How large an id, an event, a list and a record may be."""

from __future__ import annotations

MAX_RECORD_BYTES = 512 * 1024


RECORD_BYTES = 512  # header, bucket name, dimension and the lengths of 13 columns


LIST_BYTES = 1 + 1 + 8 + 4 + 8 + 4 + 8 + 4  # the columns with an entry per list, and the length of its id


MAX_ID_BYTES = 256  # of a list, a session, a user or a bucket


MAX_VERSION_BYTES = 64  # of a split's version, which stands in every samples record


CANDIDATES_BYTES = 256 * 1024  # of the candidates in an impression, ids and contexts, beside all else


SPARE_BYTES = 16 * 1024  # of an event, key included, beyond the items and contexts of the longest list


def list_bytes(rows: int, dim: int) -> int:
    """Return how many bytes a list of ``rows`` rows takes in a record, at most; propensities and users add a little."""
    return rows * (18 + 4 * dim) + LIST_BYTES + MAX_ID_BYTES


def event_bytes(rows: int, dim: int) -> int:
    """Return how many bytes the key and value of an event may have, candidates apart, for lists of ``rows`` rows."""
    return rows * (8 + 4 * dim) + SPARE_BYTES
