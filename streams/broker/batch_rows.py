"""Record batches of format 2 as rows of offset, time stamp, key and value.

kafka-python 3.0.12 takes 10 µs for a record, most of it for thirteen fields that no job looks at. What this reads is
held to the same rules, but for headers, which it passes over: their names may be any bytes, which the library refuses.
"""

from __future__ import annotations

from typing import Any

from streams.broker.unpacking import unpack

FAR_MS = 1 << 62  # a batch's time and a record's may add up to more than a stamp holds


def lean_rows(batch: Any) -> list[tuple[int, int, bytes | None, bytes | None]] | None:
    """Return (offset, time stamp, key, value) of every record of a batch, or None when it is not of the common kind."""
    if batch.magic != 2 or batch._next_record_index:
        return None
    unpack(batch)
    data, at = bytes(batch._buffer), batch._pos
    base, stamp, append_time = batch.base_offset, batch.first_timestamp, batch.max_timestamp
    if not batch.timestamp_type:
        append_time = None
    if not -FAR_MS < stamp < FAR_MS:
        return None
    rows, last = [], -1
    try:
        for _ in range(batch.records_count):
            number = data[at]
            at += 1  # numbers of one and of two bytes are read here: a call for each would be a fifth of all
            if number > 127:
                if (more := data[at]) < 128:
                    number += (more << 7) - 128
                    at += 1
                else:
                    number, at = _longer(data, at, number)
            end = at + (number >> 1)
            flags, later = data[at], data[at + 1]  # no attribute is in use
            at += 2
            if later > 127:
                if (more := data[at]) < 128:
                    later += (more << 7) - 128
                    at += 1
                else:
                    later, at = _longer(data, at, later)
            delta = data[at]
            at += 1
            if delta > 127:
                if (more := data[at]) < 128:
                    delta += (more << 7) - 128
                    at += 1
                else:
                    delta, at = _longer(data, at, delta)
            key = value = None
            size = data[at]
            at += 1
            if size != 1:
                if size > 127:
                    size, at = _longer(data, at, size)
                flags |= size & 1
                key = data[at : at + (size >> 1)]
                at += size >> 1
            size = data[at]
            at += 1
            if size != 1:
                if size > 127:
                    if (more := data[at]) < 128:
                        size += (more << 7) - 128
                        at += 1
                    else:
                        size, at = _longer(data, at, size)
                flags |= size & 1
                value = data[at : at + (size >> 1)]
                at += size >> 1
            if flags or (number | delta) & 1 or at >= end or delta <= last:  # negative sizes; headers are passed over
                return None
            at, last = end, delta
            moment = stamp + ((later >> 1) ^ -(later & 1)) if append_time is None else append_time
            rows.append((base + (delta >> 1), moment, key, value))
    except IndexError:
        return None
    return rows if at == len(data) and last >> 1 <= batch.last_offset_delta else None


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return a varint of several bytes, still zigzagged, and what comes behind it; not in place if it has over four."""
    more = data[at]
    if more < 128:
        return first + (more << 7) - 128, at + 1
    third = data[at + 1]
    if third < 128:
        return first + (more << 7) + (third << 14) - 16512, at + 2
    fourth = data[at + 2]
    if fourth < 128:
        return first + (more << 7) + (third << 14) + (fourth << 21) - 2113664, at + 3
    raise IndexError("a number of more than four bytes")
