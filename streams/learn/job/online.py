"""The online store, filled from what is durable on Kafka: Redis today, and where a second store would be written."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from schemas.codec import encode
from schemas.records import Snapshot
from streams.learn.job.threads import in_thread
from streams.parameters.job import RedisParameters
from streams.settings import Settings

log = logging.getLogger(__name__)


class OnlineStore:
    """Keeps the online store as new as ``newest``, also after it was away or came back empty.

    Set ``news`` when there may be something newer.
    """

    def __init__(self, settings: Settings, *, newest: Callable[[], Mapping[str, Snapshot]]) -> None:
        self.settings = settings
        self.news = asyncio.Event()
        self.failures = 0
        self.up: bool | None = None  # whether it took what there was to put; None: not tried
        self._newest = newest
        self._stopping = False

    async def keep(self) -> None:
        """Put what is newer, until stopped."""
        if self.settings.redis is None:
            return
        online = RedisParameters(self.settings)
        encoded: dict[str, tuple[Snapshot, bytes]] = {}
        while not self._stopping:
            for name, snapshot in self._newest().items():
                if name not in encoded or encoded[name][0] is not snapshot:
                    encoded[name] = snapshot, encode(snapshot)
                try:
                    await in_thread(online.put, *encoded[name])
                except Exception as error:  # whatever it is, learning goes on; the next turn tries again
                    self.failures += 1
                    self.up = False
                    if self.failures % 100 == 1:
                        log.warning("%s; snapshots stay on Kafka, the store is filled when it is back", error)
                    break
            else:
                self.up = True if encoded else self.up
            try:
                await asyncio.wait_for(self.news.wait(), timeout=self.settings.publish_every_s)
            except TimeoutError:
                continue
            self.news.clear()

    def stop(self) -> None:
        """End ``keep`` at its next turn."""
        self._stopping = True
        self.news.set()
