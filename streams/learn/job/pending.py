"""Records of a samples partition that were read and are not learned yet."""

from collections import deque
from collections.abc import Sequence
from threading import Lock

from streams.logs import LogRecord


class PendingRecords:
    """What was read of one partition and is not learned yet; any thread may call.

    ``start`` is the offset from which nothing is missing, ``read_to`` the next offset to read. Both are None while the
    partition is held: what is read then is not kept.

    Examples
    --------
    >>> pending = PendingRecords()
    >>> pending.seek(5)
    >>> pending.fetched([LogRecord(offset, 0, None, b"") for offset in (5, 7, 9)])
    True
    >>> [record.offset for record in pending.take(8, position=6)], pending.start, pending.missing(8)
    ([7], 8, False)
    >>> pending.missing(6)
    True
    """

    def __init__(self) -> None:
        self.start: int | None = None
        self.read_to: int | None = None
        self._records: deque[LogRecord] = deque()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._records)

    def seek(self, offset: int | None) -> None:
        """Forget what was read; the reader goes on at ``offset``, or keeps nothing until the next seek."""
        with self._lock:
            self._records.clear()
            self.start = self.read_to = offset

    def fetched(self, records: Sequence[LogRecord]) -> bool:
        """Keep records that continue what was read; return False, and keep nothing, while the partition is held."""
        with self._lock:
            if self.read_to is not None and records:
                self._records.extend(records)
                self.read_to = records[-1].offset + 1
            return self.read_to is not None

    def take(self, up_to: int, *, position: int) -> list[LogRecord]:
        """Return and forget the records from ``position`` to ``up_to``, both included; none if some are missing."""
        taken: list[LogRecord] = []
        with self._lock:
            while self._records and self._records[0].offset <= up_to and not self.missing(position):
                record = self._records.popleft()
                self.start = record.offset + 1
                if record.offset >= position:
                    taken.append(record)
                    position = record.offset + 1
        return taken

    def missing(self, position: int) -> bool:
        """Return whether records from ``position`` on were not read; not while the partition is held."""
        return self.start is not None and self.start > position
