"""A short cut from bytes to records for impressions and clicks, the two events that arrive by the million, and samples.

Each function reads only what producers commonly write (ids under 64 bytes, times from 1970-07 to 2039, lists under
8 KB; of a batch of samples, ids of one length) and returns None for anything else, good or bad, which then takes the
strict and slower way. What it does read is held to the same rules: the shortest varints, UTF-8, no byte left over,
columns that fit together. ``tests/bench/codec.py`` measures it beside fastavro.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from schemas.records import Click, Impression, SampleBatch
from schemas.strict import MAX_VALUES, SchemaError, Walk

_SIX_BYTES = Struct("<6B").unpack_from
_DOUBLE = Struct("<d").unpack_from
_CONTINUED = 128 * (1 + (1 << 7) + (1 << 14) + (1 << 21) + (1 << 28))  # the five flags of a six-byte varint
_UNUSUAL = 0x81  # in a one-byte varint: more bytes follow, or the number is negative
_UNCOMMON = (IndexError, SchemaError, StructError, UnicodeDecodeError, ZeroDivisionError)


class SampleSpans(NamedTuple):
    """Where the columns of a sample batch lie in its bytes, checked to fit together."""

    bucket: str
    dim: int
    rows: list[slice]  # items, positions, last clicks, rewards, contexts
    ids: str  # each behind its length byte
    id_step: int  # from one id to the next
    lists: list[slice]  # sizes, signs and the five others
    version: str
    users: slice
    propensities: slice


@lru_cache(maxsize=4096)  # one snapshot ranks many lists
def ranked_by(tail: bytes) -> tuple[int, int]:
    """Return the version of the snapshot that ranked a list, from the last bytes of its impression."""
    walk = Walk(tail, 0)
    version = walk.varint32(), walk.varint()
    if walk.at != len(tail):
        raise SchemaError("trailing bytes")
    return version


def read_impression(data: bytes, start: int) -> Impression | None:
    """Return the impression that fills ``data`` from ``start``, or None when it is not of the common kind."""
    try:
        fields, at = _first_eight(data, start)
        return Impression(*fields, *ranked_by(data[at:]))
    except _UNCOMMON:
        return None


def read_full_impression(data: bytes, start: int) -> Impression | None:
    """Return the impression with propensities, candidates and split that fills ``data``, or None as above."""
    try:
        fields, at = _first_eight(data, start)
        walk = Walk(data, at)
        epoch, offset = walk.varint32(), walk.varint()
        split, catalogue = walk.content().decode(), walk.content().decode()
        propensities, candidates, contexts = walk.content(), walk.content(), walk.content()
    except _UNCOMMON:
        return None
    items = len(fields[5])
    fits = not propensities or 2 * len(propensities) == items
    fits = fits and (not contexts or len(contexts) * items == len(fields[6]) * len(candidates))
    if walk.at != len(data) or len(candidates) % 8 or not fits:
        return None
    return Impression(*fields, epoch, offset, split, catalogue, propensities, candidates, contexts)


def _first_eight(data: bytes, start: int) -> tuple[tuple[str, str, str, str, int, bytes, bytes, int], int]:
    """Return the first eight fields of an impression, and where the others begin; ``_UNCOMMON`` for another kind."""
    head = data[start]
    end = start + 1 + (head >> 1)
    impression_id = data[start + 1 : end].decode()
    size = data[end]
    at = end + 1 + (size >> 1)
    session_id = data[end + 1 : at].decode()
    head |= size
    size = data[at]
    end = at + 1 + (size >> 1)
    bucket = data[at + 1 : end].decode()
    head |= size
    size = data[end]
    at = end + 1 + (size >> 1)
    user_id = data[end + 1 : at].decode()
    b0, b1, b2, b3, b4, b5 = _SIX_BYTES(data, at)
    if (head | size) & _UNUSUAL or not b0 & b1 & b2 & b3 & b4 & 128 or not 0 < b5 < 128:
        raise SchemaError("not of the common kind")
    time = b0 + (b1 << 7) + (b2 << 14) + (b3 << 21) + (b4 << 28) + (b5 << 35) - _CONTINUED

    width = data[at + 6]
    at += 7
    if width > 127:
        more = data[at]
        if not 0 < more < 128:
            raise SchemaError("not of the common kind")
        width += (more - 1) << 7
        at += 1
    end = at + (width >> 1)
    items = data[at:end]
    size = data[end]
    at = end + 1
    if size > 127:
        more = data[at]
        if not 0 < more < 128:
            raise SchemaError("not of the common kind")
        size += (more - 1) << 7
        at += 1
    end = at + (size >> 1)
    contexts = data[at:end]
    rendered = data[end]
    # widths are zigzagged, so twice the bytes: 16 for an item, 8 for a float of each item
    if width & 15 or size % (width >> 1) or rendered & _UNUSUAL:
        raise SchemaError("not of the common kind")
    shown_at_ms = (time >> 1) ^ -(time & 1)
    return (impression_id, session_id, bucket, user_id, shown_at_ms, items, contexts, rendered >> 1), end + 1


def read_click(data: bytes, start: int) -> Click | None:
    """Return the click that fills ``data`` from ``start``, or None when it is not of the common kind."""
    try:
        head = data[start]
        end = start + 1 + (head >> 1)
        impression_id = data[start + 1 : end].decode()
        size = data[end]
        at = end + 1 + (size >> 1)
        session_id = data[end + 1 : at].decode()
        position = data[at]
        b0, b1, b2, b3, b4, b5 = _SIX_BYTES(data, at + 1)
        (reward,) = _DOUBLE(data, at + 7)
    except (IndexError, StructError, UnicodeDecodeError):
        return None
    if (head | size | position) & _UNUSUAL or not b0 & b1 & b2 & b3 & b4 & 128 or not 0 < b5 < 128:
        return None
    if at + 15 != len(data):
        return None
    time = b0 + (b1 << 7) + (b2 << 14) + (b3 << 21) + (b4 << 28) + (b5 << 35) - _CONTINUED
    return Click(impression_id, session_id, position >> 1, (time >> 1) ^ -(time & 1), reward)


def read_samples(data: bytes, start: int, *, full: bool) -> SampleBatch | None:
    """Return the batch, with users and propensities if ``full``, that fills ``data`` from ``start``, or None."""
    spans = sample_spans(data, start, full=full)
    if spans is None:
        return None
    step = spans.id_step
    ids = [spans.ids[at : at + step - 1] for at in range(1, len(spans.ids) + 1, step)]
    columns: list[Any] = [data[span] for span in spans.rows]
    columns += [ids, *(data[span] for span in spans.lists), spans.version, data[spans.users], data[spans.propensities]]
    return SampleBatch(spans.bucket, spans.dim, *columns)


def sample_spans(data: bytes, start: int, *, full: bool) -> SampleSpans | None:
    """Return where the columns lie of the batch that fills ``data`` from ``start``, or None as above."""
    walk = Walk(data, start)
    try:
        bucket = walk.content().decode()
        dim = walk.varint32()
        rows = [_span(walk) for _ in range(5)]
        ids = _ids(walk)
        lists = [_span(walk) for _ in range(7)]
        version = walk.content().decode() if full else ""
        users, propensities = (_span(walk), _span(walk)) if full else (slice(0, 0), slice(0, 0))
    except (IndexError, SchemaError, UnicodeDecodeError):
        return None
    if ids is None or walk.at != len(data):
        return None
    text, step = ids
    sizes = [span.stop - span.start for span in (*rows, *lists, users, propensities)]
    count, n_lists = sizes[1], len(text) // step  # rows and lists
    wanted = [width * count for width in (8, 1, 1, 8, 4 * dim)] + [width * n_lists for width in (1, 1, 8, 4, 8, 4, 8)]
    if dim < 0 or sizes[:-2] != wanted or sizes[-2] not in (0, 8 * n_lists) or sizes[-1] not in (0, 4 * count):
        return None
    if sum(data[lists[0]]) != count:
        return None
    return SampleSpans(bucket, dim, rows, text, step, lists, version, users, propensities)


def _span(walk: Walk) -> slice:
    start = walk.skip(walk.varint())
    return slice(start, walk.at)


def _ids(walk: Walk) -> tuple[str, int] | None:
    """Return ids of equal length, one block of them, each behind the same length byte; and how far they are apart."""
    count, at = walk.varint(), walk.at
    if count == 0:
        return "", 1
    step = 1 + (walk.data[at] >> 1)
    if walk.data[at] & 0x81 or not 0 < count <= min(MAX_VALUES // 2, (len(walk.data) - at) // step):
        return None
    block = walk.data[at : at + count * step]
    if block[::step].count(block[0]) != count:
        return None
    walk.at += count * step
    if walk.varint() != 0:  # another block of ids
        return None
    if not block.isascii():  # characters of several bytes, which places in the text do not count
        return None
    return block.decode("ascii"), step
