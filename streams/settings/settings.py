"""Environment and glimpse.toml in, one checked Settings out; read once, at the start of a command."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner import ALGORITHMS, Bandit
from learner.browsing import MAX_POSITIONS
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
from streams.settings.examination import ExaminationError, checked, read_examination
from streams.settings.sources import PATHS, SECRETS, from_environment, from_toml

__all__ = ["Bucket", "Settings", "SettingsError", "load"]

SECURITY = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TIMESTAMPS = ("LogAppendTime", "CreateTime")


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """One algorithm with its parameters, trained only on its own traffic; None means the paper's rule."""

    name: str
    algorithm: str = "c2ucb"
    dim: int = 10
    positions: int = 12
    examination: NDArray[np.float64] | None = None
    alpha: float | None = None
    ridge: float | str | None = None
    beta: float | None = None
    context_scale: float = 1.0
    reward_scale: float = 1.0
    epoch: int = 1

    def __post_init__(self) -> None:
        check_name("buckets", self.name)
        at = f"buckets.{self.name}."
        check_choice(at + "algorithm", self.algorithm, ALGORITHMS)
        check_count(at + "dim", self.dim, least=0 if self.algorithm == "pbm-ucb" else 1, most=4096)
        check_count(at + "positions", self.positions, least=1, most=MAX_POSITIONS)
        check_count(at + "epoch", self.epoch, least=1, most=2**31 - 1)
        check_number(at + "context_scale", self.context_scale, above=0)
        check_number(at + "reward_scale", self.reward_scale, above=0)
        if self.alpha is not None:
            check_number(at + "alpha", self.alpha, least=0)
        if self.beta is not None:
            check_number(at + "beta", self.beta, above=0)
        if self.ridge is not None and not (self.ridge == "safe" and self.algorithm != "pbm-ucb"):
            check_number(at + "ridge", self.ridge, above=0)
        self._check_examination(at + "examination")

    def _check_examination(self, key: str) -> None:
        wanted = {"ubm-linucb": (self.positions,) * 2, "pbm-ucb": (self.positions,)}.get(self.algorithm)
        if wanted is None and self.examination is None:
            return
        shape = " × ".join(map(str, wanted or ("K",)))
        if self.examination is None:
            raise SettingsError(key, None, f"{self.algorithm} needs a table of {shape} chances; make one: glimpse fit")
        try:
            object.__setattr__(self, "examination", checked(self.examination))
        except (TypeError, ValueError) as error:
            raise SettingsError(key, "…", str(error)) from error
        if wanted is not None and self.examination.shape != wanted:
            raise SettingsError(key, self.examination.shape, f"{self.algorithm} needs a table of {shape} chances")

    def model(self) -> Bandit:
        """Return a fresh learner of this bucket, without any samples."""
        kind: Any = ALGORITHMS[self.algorithm]
        common: dict[str, Any] = {"alpha": self.alpha, "reward_scale": self.reward_scale}
        if self.algorithm == "pbm-ucb":
            model: Bandit = kind(examination=self.examination, **common)
            return model
        common |= {"ridge": self.ridge, "beta": self.beta, "context_scale": self.context_scale}
        if self.algorithm == "ubm-linucb":
            model = kind(dim=self.dim, examination=self.examination, **common)
        else:
            model = kind(dim=self.dim, positions=self.positions, **common)
        return model


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a command of Glimpse must be told; passwords are never shown."""

    kafka: str = "127.0.0.1:9092"
    redis: str | None = None  # redis://host:port/db, rediss:// for TLS
    buckets: Mapping[str, Bucket] = field(default_factory=dict)
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
        check_choice("timestamps", self.timestamps, TIMESTAMPS)
        check_count("replication", self.replication, least=1, most=100)
        check_count("min_insync", self.min_insync, least=1, most=self.replication)
        check_count("web_port", self.web_port, least=0, most=65535)
        check_count("join_web_port", self.join_web_port, least=0, most=65535)
        for name, bucket in self.buckets.items():
            if bucket.name != name:
                raise SettingsError(f"buckets.{name}", bucket.name, f"must be a bucket called {name}")
        for key in PATHS:
            check_file(key, getattr(self, key))
        self._check_kafka_security()
        self._check_redis_security()

    def _check_kafka_security(self) -> None:
        check_choice("kafka_security", self.kafka_security, SECURITY)
        check_choice("kafka_sasl", self.kafka_sasl, SASL)
        if "SASL" in self.kafka_security:
            if not self.kafka_username:
                raise SettingsError("kafka_username", self.kafka_username, f"{self.kafka_security} needs one")
            if not self.kafka_password:
                raise SettingsError(
                    "kafka_password", None, f"{self.kafka_security} needs GLIMPSE_KAFKA_PASSWORD or …_FILE"
                )
        elif self.kafka_username or self.kafka_password:
            raise SettingsError("kafka_security", self.kafka_security, "must be SASL_SSL or SASL_PLAINTEXT to log in")
        if "SSL" in self.kafka_security:
            self.kafka_client()  # certificates that do not fit are refused now
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

    def kafka_client(self) -> dict[str, Any]:
        """Return what every kafka-python client must be given: where the broker is and how to be let in."""
        client: dict[str, Any] = {"bootstrap_servers": self.kafka.split(","), "bootstrap_timeout_ms": 6_000}
        if self.kafka_security == "PLAINTEXT":
            return client
        client["security_protocol"] = self.kafka_security
        if "SASL" in self.kafka_security:
            client["sasl_mechanism"] = self.kafka_sasl
            client["sasl_plain_username"] = self.kafka_username
            client["sasl_plain_password"] = self.kafka_password
        if "SSL" in self.kafka_security:
            try:
                client["ssl_context"] = ssl.create_default_context(cafile=self.kafka_ca)
                if self.kafka_cert:
                    client["ssl_context"].load_cert_chain(
                        self.kafka_cert, self.kafka_key, self.kafka_key_password or ""
                    )
            except ssl.SSLError as error:
                key, file = ("kafka_cert", self.kafka_cert) if "ssl_context" in client else ("kafka_ca", self.kafka_ca)
                raise SettingsError(
                    key, file, f"is not usable as a PEM certificate: {error.reason or error}"
                ) from error
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


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings: environment first, then ``path``, else ``GLIMPSE_CONFIG``, else ./glimpse.toml if there."""
    chosen = path or (Path(environ["GLIMPSE_CONFIG"]) if environ.get("GLIMPSE_CONFIG") else None)
    file = chosen or Path("glimpse.toml")
    kinds = {
        part.name: {"int": int, "float": float}.get(str(part.type), str)
        for part in fields(Settings)
        if part.name not in ("buckets", *SECRETS)
    }
    values: dict[str, Any] = {}
    if chosen is not None or file.exists():
        bucket_keys = [part.name for part in fields(Bucket) if part.name != "name"]
        values = from_toml(file, (*kinds, "buckets"), bucket_keys)
    origins = dict.fromkeys(values, f"{file.name}: ")
    stated = from_environment(environ, kinds)
    origins |= dict.fromkeys(stated, "GLIMPSE_")
    try:
        buckets = {name: bucket_of(name, table) for name, table in values.pop("buckets", {}).items()}
        return Settings(**(values | stated), buckets=buckets)
    except SettingsError as error:
        origin = origins.get(error.key.partition(".")[0], "")
        key = error.key.upper() if origin == "GLIMPSE_" else error.key
        raise SettingsError(origin + key, error.value, error.allowed) from error


def bucket_of(name: str, values: dict[str, Any]) -> Bucket:
    """Return a bucket from its table in glimpse.toml; K follows from the examination table if it is not said."""
    if isinstance(values.get("examination"), Path):
        file = values["examination"]
        try:
            values["examination"] = read_examination(file)
        except ExaminationError as error:
            raise SettingsError(f"buckets.{name}.examination", str(file), str(error)) from error
    if isinstance(values.get("examination"), (list, np.ndarray)):
        values.setdefault("positions", len(values["examination"]))
    return Bucket(name, **values)
