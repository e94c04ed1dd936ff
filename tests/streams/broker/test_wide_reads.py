"""What a socket has reaches kafka-python in large pieces, and so does what is wrong with it."""

import socket
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from streams.broker.wide_reads import read_wide, received


@pytest.fixture
def connection():
    """A transport as a consumer's manager builds it once it reads wide, and the other end of its socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        net = NetworkSelector()
        manager = KafkaConnectionManager(net, bootstrap_servers=f"{host}:{port}")
        read_wide(SimpleNamespace(_manager=manager))
        transport = net.run(manager._build_transport, SimpleNamespace(host=host, port=port))
        other, _ = server.accept()
        with other:
            yield net, transport, other
        manager.close()


def test_a_connection_hands_on_all_that_came_and_then_its_end(connection):
    net, transport, other = connection
    data, pieces, lost, read = bytes(range(256)) * 400, [], [], []
    transport.set_protocol(SimpleNamespace(_sensors=None, data_received=pieces.append, connection_lost=lost.append))
    own = transport._sock_recv
    transport._sock_recv = lambda: read.append(own()) or read[-1]
    other.sendall(data)
    transport.resume_reading()
    while sum(map(len, pieces)) < len(data):
        net.poll(timeout_ms=1_000)
    assert b"".join(pieces) == data
    assert [(piece, None) for piece in pieces] == read, "the library reads in our way"
    assert own.func is received
    assert own() == (b"", None), "nothing more has come"
    other.close()
    while not lost:
        net.poll(timeout_ms=1_000)
    assert isinstance(lost[0], KafkaConnectionError)
