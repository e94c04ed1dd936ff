"""How large an id, a list and a record may be."""

from __future__ import annotations

MAX_RECORD_BYTES = 512 * 1024


RECORD_BYTES = 512  # header, bucket name, dimension and the lengths of 13 columns


LIST_BYTES = 1 + 1 + 8 + 4 + 8 + 4 + 8 + 4  # the columns with an entry per list, and the length of its id


MAX_ID_BYTES = 256  # of a list's id


def list_bytes(rows: int, dim: int) -> int:
    """Return how many bytes a list of ``rows`` rows takes in a record, at most."""
    return rows * (18 + 4 * dim) + LIST_BYTES + MAX_ID_BYTES
