"""A byte that flips on a broker's disk, in the middle of a log."""

from collections.abc import Iterator
from pathlib import Path

from kafka import TopicPartition


def batches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the base offset of each batch of a segment, where it begins, and how long it is."""
    at = 0
    while at + 12 <= len(data):
        length = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        yield int.from_bytes(data[at : at + 8], "big"), at, length
        at += length


class FlippedByte:
    """The last byte of a partition's middle batch, turned over; Kafka sends what its disk has."""

    def __init__(self, folder: Path, place: TopicPartition) -> None:
        [log] = folder.rglob(f"{place.topic}-{place.partition}")
        [self.file] = log.glob("*.log")
        found = [one for one in batches(self.file.read_bytes()) if one[2] > 120]  # markers are shorter
        self.offset, begin, length = found[len(found) // 2]
        self._at = begin + length - 1
        self.turn()

    def turn(self) -> None:
        """Turn it over, or back."""
        with self.file.open("r+b") as file:
            file.seek(self._at)
            byte = file.read(1)[0]
            file.seek(self._at)
            file.write(bytes([byte ^ 0xFF]))
