"""All settings of a deployment, checked, and the names of its topics; read once, at the start of a command."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from streams.settings.bucket import Bucket, SplitSettings
from streams.settings.checks import (
    SettingsError,
    check_choice,
    check_count,
    check_file,
    check_name,
    check_number,
    check_redis_url,
    check_servers,
)
from streams.settings.log_pair import EVENTS, LogPair

TOPICS = (*EVENTS, "samples", "parameters", "dead-letters", "late-clicks")
PATHS = ("kafka_ca", "kafka_cert", "kafka_key", "redis_ca", "redis_cert", "redis_key")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a command of Glimpse must be told; passwords are never shown."""

    kafka: str = "127.0.0.1:9092"
    redis: str | None = None  # redis://host:port/db, rediss:// for TLS
    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    split: SplitSettings = field(default_factory=SplitSettings)
    registry: Mapping[int, str] = field(default_factory=dict)  # id -> "impressions", "clicks" or the path of an .avsc
    wait_s: float = 600.0  # a list closes so long after it was shown
    lateness_s: float = 600.0  # and takes corrections so much longer
    future_s: float = 300.0  # an event may be dated so far after its record
    publish_every_s: float = 1.0
    partitions: int = 4  # of new topics
    topic_prefix: str = ""
    timestamps: str = "LogAppendTime"  # CreateTime for logs that were loaded
    replication: int = 1
    min_insync: int = 1
    downtime_s: float = 86_400.0  # the jobs may be down so long without losing events
    samples_retention_s: float = 31_536_000.0
    web_host: str = "127.0.0.1"
    web_port: int = 6066  # of learn; 0 takes any free one
    join_web_port: int = 6067
    kafka_client: str = "kafka-python"  # of the join; auto takes confluent where the extra `fast` is installed
    group_instance_id: str | None = None  # of one join process: restarted in time it keeps its partitions
    kafka_security: str = "PLAINTEXT"
    kafka_sasl: str = "SCRAM-SHA-512"
    kafka_username: str | None = None
    kafka_password: str | None = field(default=None, repr=False)
    kafka_ca: str | None = None
    kafka_cert: str | None = None
    kafka_key: str | None = None
    kafka_key_password: str | None = field(default=None, repr=False)
    redis_username: str | None = None
    redis_password: str | None = field(default=None, repr=False)
    redis_ca: str | None = None
    redis_cert: str | None = None
    redis_key: str | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            value, kind = getattr(self, part.name), str(part.type)
            if kind.startswith("str") and not isinstance(value, str) and not (value is None and "None" in kind):
                raise SettingsError(part.name, value, "must be text")
        check_servers("kafka", self.kafka)
        for key in ("wait_s", "lateness_s", "future_s", "downtime_s"):
            check_number(key, getattr(self, key), least=0, most=10 * 31_536_000)
        check_number("samples_retention_s", self.samples_retention_s, above=0, most=100 * 31_536_000)
        check_number("publish_every_s", self.publish_every_s, least=0.01, most=3600)
        check_count("partitions", self.partitions, least=1, most=1000)
        check_name("topic_prefix", self.topic_prefix, least=0)
        check_choice("timestamps", self.timestamps, ("LogAppendTime", "CreateTime"))
        check_count("replication", self.replication, least=1, most=100)
        check_count("min_insync", self.min_insync, least=1, most=self.replication)
        check_count("web_port", self.web_port, least=0, most=65535)
        check_count("join_web_port", self.join_web_port, least=0, most=65535)
        check_choice("kafka_client", self.kafka_client, ("auto", "kafka-python", "confluent"))
        if self.group_instance_id is not None:
            check_name("group_instance_id", self.group_instance_id, least=1)
        for name, bucket in self.buckets.items():
            if bucket.name != name:
                raise SettingsError(f"buckets.{name}", bucket.name, f"must be a bucket called {name}")
            bucket.check_host(self.buckets)
        self.split.check_buckets(self.buckets)
        for number, schema in self.registry.items():
            check_count("registry", number, least=0, most=(1 << 31) - 1)
            if schema not in EVENTS:
                check_file(f"registry.{number}", schema)
        for key in PATHS:
            check_file(key, getattr(self, key))
        self._check_kafka_security()
        self._check_redis_security()

    def _check_kafka_security(self) -> None:
        check_choice("kafka_security", self.kafka_security, ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
        check_choice("kafka_sasl", self.kafka_sasl, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
        if "SASL" in self.kafka_security:
            needs = f"{self.kafka_security} needs"
            if not self.kafka_username:
                raise SettingsError("kafka_username", self.kafka_username, f"{needs} one")
            if not self.kafka_password:
                raise SettingsError("kafka_password", None, f"{needs} GLIMPSE_KAFKA_PASSWORD or …_FILE")
        elif self.kafka_username or self.kafka_password:
            raise SettingsError("kafka_security", self.kafka_security, "must be SASL_SSL or SASL_PLAINTEXT to log in")
        if "SSL" in self.kafka_security:
            self.kafka_options()  # certificates that do not fit are refused now
        elif self.kafka_ca or self.kafka_cert or self.kafka_key:
            raise SettingsError("kafka_security", self.kafka_security, "must be SSL or SASL_SSL to use certificates")

    def _check_redis_security(self) -> None:
        if self.redis is not None:
            check_redis_url("redis", self.redis)
        if (self.redis_ca or self.redis_cert or self.redis_key) and not (self.redis or "").startswith("rediss://"):
            raise SettingsError("redis", self.redis, "must begin with rediss:// to use certificates")
        if self.redis_username and not self.redis_password:
            raise SettingsError("redis_password", None, "redis_username needs GLIMPSE_REDIS_PASSWORD or …_FILE")

    @property
    def horizon_s(self) -> float:
        """H: how long after being shown a list may still change."""
        return self.wait_s + self.lateness_s

    def kafka_options(self) -> dict[str, Any]:
        """Return what every kafka-python client must be given: where the broker is and how to be let in."""
        client: dict[str, Any] = {"bootstrap_servers": self.kafka.split(","), "bootstrap_timeout_ms": 6_000}
        if self.kafka_security == "PLAINTEXT":
            return client
        client["security_protocol"] = self.kafka_security
        if "SASL" in self.kafka_security:
            login = {"sasl_plain_username": self.kafka_username, "sasl_plain_password": self.kafka_password}
            client |= {"sasl_mechanism": self.kafka_sasl} | login
        if "SSL" in self.kafka_security:
            try:
                client["ssl_context"] = context = ssl.create_default_context(cafile=self.kafka_ca)
                if self.kafka_cert:
                    context.load_cert_chain(self.kafka_cert, self.kafka_key, self.kafka_key_password or "")
            except ssl.SSLError as error:
                key = "kafka_cert" if "ssl_context" in client else "kafka_ca"
                why = f"is not usable as a PEM certificate: {error.reason or error}"
                raise SettingsError(key, getattr(self, key), why) from error
        return client

    def redis_client(self) -> dict[str, Any]:
        """Return what ``redis.Redis.from_url(settings.redis, **…)`` must be given besides the address."""
        given = {
            "username": self.redis_username,
            "password": self.redis_password,
            "ssl_ca_certs": self.redis_ca,
            "ssl_certfile": self.redis_cert,
            "ssl_keyfile": self.redis_key,
        }
        return {key: value for key, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of all topics in one deployment."""

    impressions: str
    clicks: str
    samples: str
    parameters: str
    dead_letters: str
    late_clicks: str

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """Return the names that ``settings`` gives to the topics."""
        return cls(*(settings.topic_prefix + name for name in TOPICS))

    @property
    def events(self) -> LogPair[str]:
        """The two that services write."""
        return LogPair(self.impressions, self.clicks)

    @property
    def of_jobs(self) -> tuple[str, str, str, str]:
        """Those that the stream jobs write."""
        return self.samples, self.parameters, self.dead_letters, self.late_clicks
