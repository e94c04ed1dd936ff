"""Local servers: they start, stop, die and come back with their data, and only ours are ended."""

import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from paused import paused

from streams.local.kafka import LocalKafka, jars
from streams.local.server import LocalRedis, LocalServerError, command_line, ended, free_port, listening, running_pid
from streams.local.up import exports, servers, start_servers, stop_servers
from streams.settings import SettingsError, Topics, load


def written(broker: LocalKafka, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    for value in values:
        producer.send(topic, value, partition=0).get(timeout=20)
    producer.close()


def read(broker: LocalKafka, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    consumer.assign([TopicPartition(topic, 0)])
    found = [record.value for _, record in zip(range(count), consumer, strict=False)]  # never asks for one too many
    consumer.close()
    return found


def test_a_broker_keeps_its_port_and_what_it_acknowledged(new_broker, settings_for):
    broker = new_broker()
    clicks = Topics.of(settings_for(kafka=broker.bootstrap, partitions=1, topic_prefix="")).clicks
    address = broker.bootstrap
    written(broker, clicks, b"before")
    first = broker.pid
    broker.kill()
    assert broker.pid is None
    broker.start()
    written(broker, clicks, b"after a kill")
    broker.stop()
    broker.start()
    assert (broker.bootstrap, broker.pid != first) == (address, True)
    assert read(broker, clicks, 2) == [b"before", b"after a kill"]


def test_a_paused_server_is_silent_and_then_goes_on(new_redis):
    server = new_redis()
    patient = redis.Redis.from_url(server.url, socket_timeout=60)
    patient.set("a", 1)
    client = redis.Redis.from_url(server.url, socket_timeout=0.3, socket_connect_timeout=60, retry=None)
    with paused(server), pytest.raises(redis.TimeoutError):
        client.get("a")
    assert patient.get("a") == b"1"


def test_another_handle_finds_and_stops_the_server(new_redis):
    server = new_redis()
    other = LocalRedis(server.folder, port=server.port)
    assert other.pid == server.pid
    other.stop()
    assert (other.pid, server.pid, listening(server.port)) == (None, None, False)


MANY_THREADS = """
import threading, time
memory = bytearray(50_000_000)
memory[::4096] = b"x" * len(memory[::4096])  # to give back takes a while
for _ in range(60):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


def test_a_process_has_ended_when_its_last_thread_has():
    for _ in range(10):
        process = subprocess.Popen([sys.executable, "-c", MANY_THREADS], stdout=subprocess.PIPE)
        with process:
            assert process.stdout.readline() == b"ready\n"
            process.kill()
            while not ended(process.pid):
                pass
            assert process.poll() is not None


def test_a_stranger_with_our_process_id_is_left_alone(tmp_path):
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        while "sleep" not in command_line(stranger.pid):  # the kernel shows it a moment after the start
            assert stranger.poll() is None
        (tmp_path / "redis.pid").write_text(str(stranger.pid))
        assert running_pid(tmp_path / "redis.pid", marker="sleep") == stranger.pid
        server = LocalRedis(tmp_path)
        assert server.pid is None
        server.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_taken_port_is_named(new_redis, tmp_path):
    port = new_redis().port
    with pytest.raises(LocalServerError, match=f"port {port} of 127.0.0.1 is taken"):
        LocalRedis(tmp_path, port=port).start()


@pytest.mark.parametrize("server", [LocalKafka, LocalRedis])
def test_of_two_that_take_a_port_at_once_one_says_that_it_could_not(programs, tmp_path, server):
    port, both = free_port(), threading.Barrier(2)
    servers = [server(tmp_path / name, port=port) for name in ("one", "other")]

    def start(one):
        both.wait()
        try:
            one.start()
        except LocalServerError as error:
            return str(error)
        return "started"

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(start, servers))
    try:
        assert [one.pid is not None for one in servers].count(True) == 1
        assert said[1] == "started"
        assert "ended with code" in said[0] or "is taken" in said[0]
    finally:
        for one in servers:
            one.stop()


def test_a_server_that_cannot_start_says_why(programs, tmp_path):
    with pytest.raises(
        LocalServerError, match=r"redis ended with code 1: argument must be a memory value .*redis\.log"
    ):
        LocalRedis(tmp_path / "r", options={"maxmemory": "nonsense"}).start()
    broker = LocalKafka(tmp_path / "k")
    broker.config["log.retention.ms"] = "nonsense"
    with pytest.raises(LocalServerError, match=r"java failed with code 1: .*nonsense"):
        broker.start()


def test_missing_programs_are_named_with_their_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(LocalServerError, match="redis-server is not installed; try: apt-get install redis-server"):
        LocalRedis(tmp_path / "r").start()
    with pytest.raises(LocalServerError, match="mvn is not installed; try: apt-get install maven"):
        LocalKafka(tmp_path / "k").start()


def test_jars_are_fetched_once_by_whoever_is_first(programs, monkeypatch, tmp_path):
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path))
    found = []
    threads = [threading.Thread(target=lambda: found.append(jars())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert (found[0] / "kafka_2.13-4.2.1.jar").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka-4.2.1", "kafka.lock"]
    monkeypatch.setenv("PATH", "")  # from now on nothing can be fetched, nor needs to be
    assert jars() == found[0]


def test_data_of_a_newer_kafka_are_refused_with_the_way_out(programs, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    with pytest.raises(LocalServerError, match=r"made by Kafka 4\.3\.1, and 4\.2\.1, .* glimpse down --delete"):
        LocalKafka(tmp_path).start()
    (tmp_path / "kafka.version").write_text("4.10.0")
    with pytest.raises(LocalServerError, match=r"made by Kafka 4\.10\.0, and"):
        LocalKafka(tmp_path).start()


def test_free_ports_lie_below_those_of_outgoing_connections():
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 1
    assert max(ports) < 32_768


def test_up_twice_and_down(programs, tmp_path, monkeypatch):
    monkeypatch.setattr("streams.local.up.USUAL_PORTS", {"kafka": free_port(), "redis": free_port()})
    folder, said = tmp_path / "servers", []
    try:
        first = start_servers(folder, environ={}, say=said.append)
        pids = [server.pid for server in servers(folder)]
        assert redis.Redis.from_url(first["redis"]).ping()
        # a shell that has been told the addresses asks again
        told = {"GLIMPSE_KAFKA": first["kafka"], "GLIMPSE_REDIS": first["redis"]}
        assert start_servers(folder, environ=told, say=said.append) == first
        assert [server.pid for server in servers(folder)] == pids
        assert said[-1] == f"redis: runs already on port {servers(folder)[1].port}"
        monkeypatch.chdir(tmp_path)
        folder.with_name(".glimpse").symlink_to(folder)  # as if it had been started in .glimpse of this folder
        assert (load(environ={}).kafka, load(environ={}).redis) == (first["kafka"], first["redis"])
    finally:
        stop_servers(folder, delete=False, say=said.append)
    assert said[-2:] == ["kafka: stopped", "redis: stopped"]
    assert load(environ={}).redis is None
    assert [server.pid for server in servers(folder)] == [None, None]
    stop_servers(folder, delete=True, say=said.append)
    assert not folder.exists()


def test_two_ups_at_the_same_moment_have_servers_of_their_own(programs, tmp_path, monkeypatch):
    monkeypatch.setattr("streams.local.up.USUAL_PORTS", {"kafka": free_port(), "redis": free_port()})
    folders, both = [tmp_path / "one", tmp_path / "other"], threading.Barrier(2)

    def up(folder):
        both.wait()
        return start_servers(folder, environ={}, say=str)

    try:
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(up, folders)
        assert one["kafka"] != other["kafka"]
        assert one["redis"] != other["redis"]
        assert all(server.pid is not None for folder in folders for server in servers(folder))
    finally:
        for folder in folders:
            stop_servers(folder, delete=True, say=str)


def test_what_up_started_has_its_keys_again_after_down(programs, tmp_path, kafka, monkeypatch):
    monkeypatch.setattr("streams.local.up.USUAL_PORTS", {"kafka": free_port(), "redis": free_port()})
    told = {"GLIMPSE_KAFKA": kafka}  # so that only Redis is started
    try:
        for wanted in (None, b"1"):
            client = redis.Redis.from_url(start_servers(tmp_path, environ=told, say=str)["redis"])
            assert client.get("a") == wanted
            client.set("a", 1)
            client.close()
            stop_servers(tmp_path, delete=False, say=str)
    finally:
        stop_servers(tmp_path, delete=True, say=str)


def test_down_deletes_what_up_wrote_and_nothing_else(tmp_path):
    said = []
    stop_servers(tmp_path, delete=True, say=said.append)  # nobody was here
    assert said == [f"nothing was started in {tmp_path}"]
    ours = tmp_path / "ours"
    ours.mkdir()
    servers(ours)
    (ours / "kafka").mkdir()
    (ours / "kafka" / "server.properties").touch()
    (ours / "thesis.txt").write_text("mine")
    stop_servers(ours, delete=True, say=said.append)
    assert [path.name for path in ours.iterdir()] == ["thesis.txt"]
    assert "'thesis.txt' is not ours, so the folder stays" in said[-1]
    with pytest.raises(LocalServerError, match="holds files that glimpse up has not made"):
        start_servers(ours, environ={}, say=said.append)
    assert [path.name for path in ours.iterdir()] == ["thesis.txt"]


BAD_ADDRESSES = {
    "a command": {"GLIMPSE_KAFKA": "$(touch owned):9092"},
    "a password": {"GLIMPSE_REDIS": "redis://:hunter2@127.0.0.1:6379/0"},
}


@pytest.mark.parametrize("environ", BAD_ADDRESSES.values(), ids=BAD_ADDRESSES)
def test_up_prints_no_address_that_a_shell_must_not_see(tmp_path, environ):
    with pytest.raises(SettingsError) as refused:
        start_servers(tmp_path / "s", environ=environ, say=str)
    assert "hunter2" not in str(refused.value)
    assert not (tmp_path / "s").exists()


def test_exports_are_quoted():
    assert (
        shlex.split(exports({"kafka": "$(touch owned)", "redis": "a b"}).splitlines()[0])[1]
        == "GLIMPSE_KAFKA=$(touch owned)"
    )


def test_up_uses_the_servers_it_is_told(tmp_path, kafka, redis_url):
    said = []
    found = start_servers(tmp_path / "s", environ={"GLIMPSE_KAFKA": kafka, "GLIMPSE_REDIS": redis_url}, say=said.append)
    assert exports(found) == f"export GLIMPSE_KAFKA={kafka}\nexport GLIMPSE_REDIS={redis_url}"
    assert [server.pid for server in servers(tmp_path / "s")] == [None, None]
    assert said[0] == f"kafka: {kafka} is used, as GLIMPSE_KAFKA says"


def test_up_does_not_believe_in_servers_that_are_not_there(tmp_path, redis_url):
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(LocalServerError, match=f"GLIMPSE_KAFKA = {nowhere} does not answer; unset GLIMPSE_KAFKA"):
        start_servers(tmp_path, environ={"GLIMPSE_KAFKA": nowhere, "GLIMPSE_REDIS": redis_url}, say=str)
