"""Environment and glimpse.toml in, one checked Settings out; read once, at the start of a command."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from learner import Bandit

MAX_POSITIONS = 50  # a list longer than this is no list
ALGORITHM_NAMES = ("ubm-linucb", "c2ucb", "cm-linucb", "dcm-linucb", "pbm-ucb")
SECURITY = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TIMESTAMPS = ("LogAppendTime", "CreateTime")


class SettingsError(ValueError):
    """A setting that cannot be used: its key, its value and what is allowed, in one line."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key} = {value!r}: {allowed}")
        self.key, self.value, self.allowed = key, value, allowed


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """One algorithm with its parameters, trained only on its own traffic."""

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

    def model(self) -> Bandit:
        """Return a fresh learner of this bucket, without any samples."""
        from learner import ALGORITHMS

        kind = ALGORITHMS[self.algorithm]
        if self.algorithm == "pbm-ucb":
            return kind(examination=self.examination, alpha=self.alpha, reward_scale=self.reward_scale)
        seen = {"examination": self.examination} if self.algorithm == "ubm-linucb" else {"positions": self.positions}
        return kind(
            dim=self.dim,
            **seen,
            alpha=self.alpha,
            ridge=self.ridge,
            beta=self.beta,
            context_scale=self.context_scale,
            reward_scale=self.reward_scale,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a command of Glimpse must be told."""

    kafka: str = "127.0.0.1:9092"
    redis: str | None = None
    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    wait_s: float = 600.0
    lateness_s: float = 600.0
    future_s: float = 300.0
    publish_every_s: float = 1.0
    partitions: int = 4
    topic_prefix: str = ""
    timestamps: str = "LogAppendTime"
    replication: int = 1
    min_insync: int = 1
    downtime_s: float = 86_400.0
    samples_retention_s: float = 31_536_000.0
    web_host: str = "127.0.0.1"
    web_port: int = 6066
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

    @property
    def horizon_s(self) -> float:
        """H: how long after being shown a list may still change."""
        return self.wait_s + self.lateness_s

    def kafka_client(self) -> dict[str, Any]:
        """Return what every kafka-python client must be given: where the broker is and how to be let in."""
        return {"bootstrap_servers": self.kafka.split(",")}

    def redis_client(self) -> dict[str, Any]:
        """Return what ``redis.Redis.from_url(settings.redis, **…)`` must be given besides the address."""
        return {}
