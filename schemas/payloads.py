"""Many payloads walked through at once, step by step the same field of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_PAD = bytes(16)  # behind the last payload, so that looking ahead stays inside
_UNUSUAL = 0x81  # in a one-byte varint: more bytes follow, or the number is negative
_SEVENS = np.array([1 << 7 * place for place in range(6)])


class Payloads:
    """Payloads that should begin with one header, and a place in each that is read from next.

    Whoever reads beyond the end of one finds bytes of the next, so in the end ``at`` tells whether what was read is its
    own; ``common`` is false for those that are not of the common kind.
    """

    def __init__(self, values: Sequence[bytes], header: bytes) -> None:
        self.text = b"".join((*values, _PAD))
        self.data = np.frombuffer(self.text, np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self.stop = np.cumsum(sizes)
        start = self.stop - sizes
        self.common = (self.window(start, len(header)) == np.frombuffer(header, np.uint8)).all(axis=1)
        self.head = self.at = start + len(header)

    def byte(self) -> Ints:
        """Return the next byte of each."""
        found = self.data.take(self.at, mode="clip").astype(np.int64)
        self.at = self.at + 1
        return found

    def window(self, at: Ints, width: int) -> NDArray[np.uint8]:
        """Return so many bytes of each from a place on."""
        places = np.minimum(at, len(self.data) - width)
        return sliding_window_view(self.data, width)[places] if width else np.empty((len(at), 0), np.uint8)

    def small(self) -> Ints:
        """Return a number of one byte, 0 to 63."""
        found = self.byte()
        self.common &= (found & _UNUSUAL) == 0
        return found >> 1

    def medium(self) -> Ints:
        """Return a number of up to two bytes, zigzagged."""
        found = self.byte()
        more = self.data.take(self.at, mode="clip").astype(np.int64)
        longer = found > 127
        self.common &= ~longer | ((more > 0) & (more < 128))
        self.at = self.at + longer
        return np.where(longer, found + ((more - 1) << 7), found)

    def time(self) -> Ints:
        """Return a number of six bytes."""
        six = self.window(self.at, 6).astype(np.int64)
        self.common &= (six[:, :5] > 127).all(axis=1) & (six[:, 5] > 0) & (six[:, 5] < 128)
        self.at = self.at + 6
        found: Ints = (six & 127) @ _SEVENS
        return (found >> 1) ^ -(found & 1)

    def skip(self, sizes: Ints) -> tuple[Ints, Ints]:
        """Pass over so many bytes of each, and return where they begin and end."""
        start, self.at = self.at, self.at + sizes
        return start, self.at

    def slices(self, place: tuple[Ints, Ints], which: Ints) -> list[bytes]:
        """Return the bytes at some places."""
        text = self.text
        return [
            text[start:stop] for start, stop in zip(place[0][which].tolist(), place[1][which].tolist(), strict=True)
        ]

    def strings(self, place: tuple[Ints, Ints], which: Ints) -> list[str]:
        """Return ASCII texts at some places."""
        return [found.decode() for found in self.slices(place, which)]

    def block(self, place: tuple[Ints, Ints], which: Ints) -> bytes | NDArray[np.uint8]:
        """Return the bytes at some places, one after another."""
        widths = (place[1] - place[0])[which]
        if len(which) and (widths == widths[0]).all():
            return self.window(place[0][which], int(widths[0])).reshape(-1)
        return b"".join(self.slices(place, which))
