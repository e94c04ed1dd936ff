"""A wider way from a socket into kafka-python."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError
from kafka.net.transport import KafkaSSLTransport

READ_BYTES = 1 << 18


def read_wide(consumer: KafkaConsumer) -> None:
    """Have the connections that a consumer makes from now on read up to 256 KB at once.

    kafka-python 3.0.12 asks a socket for 4 KB, and gives up the interpreter's lock for it: beside a thread that works,
    it gets the lock back 5 ms later. Encrypted connections have 16 KB at most in one piece, and are left as they are.
    """
    manager = consumer._manager
    manager._build_transport = partial(_wide_transport, manager._build_transport)


async def _wide_transport(build: Any, *given: Any, **options: Any) -> Any:
    transport = await build(*given, **options)
    if not isinstance(transport, KafkaSSLTransport):
        transport._sock_recv = partial(received, transport)
    return transport


def received(transport: Any) -> tuple[bytes, KafkaConnectionError | None]:
    """Return what a socket has, or what is wrong with it; in the library's place."""
    pieces: list[bytes] = []
    try:
        while piece := transport._sock.recv(READ_BYTES):
            pieces.append(piece)
            if len(piece) < READ_BYTES:
                return b"".join(pieces), None
    except (BlockingIOError, InterruptedError):
        return b"".join(pieces), None
    except OSError as error:
        return b"".join(pieces), KafkaConnectionError(error)
    return b"".join(pieces), KafkaConnectionError("socket disconnected")
