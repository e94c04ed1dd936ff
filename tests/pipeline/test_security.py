"""Passwords and certificates against servers that demand them."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import redis
from jobs import wait_until
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion
from kafka.errors import KafkaError

from streams.broker import check_topics, create_topics, open_broker
from streams.local.server import free_port
from streams.settings import Settings, Topics

PASSWORD = "correct horse"
JAAS = "org.apache.kafka.common.security.{} required {};"


@pytest.fixture(scope="module")
def certificate(programs, tmp_path_factory):
    """A certificate for 127.0.0.1 that vouches for itself."""
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(make, check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return folder


def test_kafka_lets_in_who_has_the_password_and_trusts_the_certificate(new_broker, certificate):
    plain, secure, controller = free_port(), free_port(), free_port()
    inside, outside = f"PLAINTEXT://127.0.0.1:{plain}", f"OUTSIDE://127.0.0.1:{secure}"
    login = "listener.name.outside"
    broker = new_broker(
        {
            "listeners": ",".join([inside, f"CONTROLLER://127.0.0.1:{controller}", outside]),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "advertised.listeners": f"{inside},{outside}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTSIDE:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificate / "both.pem"),
            f"{login}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{login}.plain.sasl.jaas.config": JAAS.format("plain.PlainLoginModule", f'user_anna="{PASSWORD}"'),
            f"{login}.scram-sha-512.sasl.jaas.config": JAAS.format("scram.ScramLoginModule", ""),
        },
        port=plain,
    )
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("berta", ScramMechanism.SCRAM_SHA_512, iterations=4096, password=PASSWORD)]
    )
    admin.close()
    anna = Settings(
        kafka=f"127.0.0.1:{secure}",
        kafka_security="SASL_SSL",
        kafka_sasl="PLAIN",
        kafka_username="anna",
        kafka_password=PASSWORD,
        kafka_ca=str(certificate / "cert.pem"),
    )
    create_topics(anna)
    assert check_topics(anna) == []
    berta = replace(anna, kafka_sasl="SCRAM-SHA-512", kafka_username="berta")
    assert check_topics(berta) == []
    for client in ("kafka-python", "confluent"):
        for user in (anna, berta):
            reads_and_writes(replace(user, kafka_client=client))
    with pytest.raises(KafkaError):
        check_topics(replace(anna, kafka_ca=None))
    environ = {
        "GLIMPSE_KAFKA": anna.kafka,
        "GLIMPSE_KAFKA_SECURITY": "SASL_SSL",
        "GLIMPSE_KAFKA_USERNAME": "berta",
        "GLIMPSE_KAFKA_PASSWORD": "wrong guess",
        "GLIMPSE_KAFKA_CA": str(certificate / "cert.pem"),
    }
    said = subprocess.run(
        [sys.executable, "-m", "streams.cli", "topics"],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    # over TLS kafka-python often sees no more of a refusal than that the line was cut
    assert "(KafkaConnectionError: " in said or "SaslAuthenticationFailedError" in said, said
    assert "its security and password" in said
    assert len(said.splitlines()) == 2  # where it would write, and why it cannot
    assert "wrong guess" not in said


def reads_and_writes(settings: Settings) -> None:
    """Be a member of a group, and write in a transaction, as a join does."""
    broker, topics = open_broker(settings), Topics.of(settings)
    member = broker.group_consumer(f"{settings.kafka_username}-{settings.kafka_client}", topics.events)
    wait_until(lambda: not member.poll(20) and member.assignment(), timeout_s=60, every_s=0)
    member.close()
    writer = broker.writer("writer", patience_ms=10_000)
    writer.begin()
    writer.send(topics.parameters, key=b"@nothing", value=None)
    writer.commit()
    writer.abandon()


def test_redis_lets_in_who_has_the_password_and_trusts_the_certificate(new_redis, certificate):
    secure = free_port()
    server = new_redis(
        options={
            "tls-port": str(secure),
            "tls-cert-file": str(certificate / "cert.pem"),
            "tls-key-file": str(certificate / "key.pem"),
            "tls-auth-clients": "no",
            "requirepass": "for nobody",
        }
    )
    with redis.Redis(port=server.port, password="for nobody") as admin:
        admin.execute_command("ACL", "SETUSER", "ranker", "on", f">{PASSWORD}", "~glimpse:*", "+@read", "+ping")
    ranker = Settings(
        redis=f"rediss://127.0.0.1:{secure}/0",
        redis_username="ranker",
        redis_password=PASSWORD,
        redis_ca=str(certificate / "cert.pem"),
    )
    with redis.Redis.from_url(ranker.redis, **ranker.redis_client()) as client:
        assert client.get("glimpse:parameters:main") is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get("others")
    for stranger in (replace(ranker, redis_password="guess"), replace(ranker, redis_ca=None)):
        with redis.Redis.from_url(stranger.redis, **stranger.redis_client()) as client, pytest.raises(redis.RedisError):
            client.ping()
