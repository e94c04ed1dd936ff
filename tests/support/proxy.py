"""A proxy before a broker that loses chosen requests, or the answers to them."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter

PRODUCE, END_TRANSACTION = 0, 26  # Kafka's numbers for the requests that write and commit


class LossyProxy:
    """Passes Kafka's frames on, but for those that it was told to lose; a broker must advertise its port."""

    def __init__(self, *, target: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.target = target  # the broker's port
        self.to_lose: Counter[tuple[str, int]] = Counter()  # ("request" or "answer", kind of request)
        self.lost: Counter[tuple[str, int]] = Counter()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            kinds: dict[int, int] = {}  # by correlation id
            for name, source, sink in (("request", client, broker), ("answer", broker, client)):
                threading.Thread(target=self._pass, args=(name, source, sink, kinds), daemon=True).start()

    def _pass(self, name: str, source: socket.socket, sink: socket.socket, kinds: dict[int, int]) -> None:
        try:
            with source, sink, source.makefile("rb") as stream:
                while len(head := stream.read(4)) == 4:
                    frame = stream.read(struct.unpack(">i", head)[0])
                    if name == "request":
                        kind, _, number = struct.unpack(">hhi", frame[:8])
                        kinds[number] = kind
                    else:
                        kind = kinds.pop(struct.unpack(">i", frame[:4])[0], -1)
                    if self.to_lose[name, kind] > 0:
                        self.to_lose[name, kind] -= 1
                        self.lost[name, kind] += 1
                    else:
                        sink.sendall(head + frame)
        except OSError:
            return  # one side is gone, and the other with it

    def close(self) -> None:
        self._listener.close()
