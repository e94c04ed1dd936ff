"""The split of users into buckets by weighted rendezvous hashing: nobody is remembered, and few ever move."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from math import inf, log
from typing import Self

from streams.settings import Settings, SplitSettings

HOLDOUT = "holdout"  # the namespace, with an empty salt, in which the holdout is drawn: no new salt changes it


class UnknownNamespace(LookupError):
    """A namespace in which no bucket takes users."""


class Split:
    """Sends each user to a bucket, the same one every time, in proportion to the buckets' weights.

    A user has a number in (0, 1) for every bucket, from a hash, and meets the bucket with the largest ln(number) /
    weight. So when a weight grows users move into that bucket and nowhere else, when it falls only out of it, and a new
    bucket takes from all in proportion. Weights, of each namespace's buckets, count in proportion: 1 and 3 are a
    quarter and three quarters; a bucket of weight 0 takes nobody new.

    >>> split = Split({"": {"ubm": 0.9, "c2ucb": 0.1}}, SplitSettings(salt="autumn"))
    >>> split.bucket_of("u-17"), split.version
    ('ubm', '253ce53bb547')
    """

    def __init__(self, weights: Mapping[str, Mapping[str, float]], rule: SplitSettings) -> None:
        for namespace, shares in weights.items():
            total = sum(shares.values())
            if not shares or min(shares.values()) < 0 or not 0 < total < inf:
                raise ValueError(
                    f"the buckets of namespace {namespace!r} must have weights of at least 0 with a positive sum, got "
                    f"{dict(shares)}"
                )
        self.weights = {
            namespace: {name: float(weight) for name, weight in sorted(shares.items())}
            for namespace, shares in sorted(weights.items())
        }
        self._rule = rule
        text = [rule.salt, self.weights, float(rule.holdout), rule.holdout_bucket, rule.sticky, rule.same_ranking]
        self.version = sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()[:12]
        self._drawn = {
            namespace: [(name, weight, _begun(rule.salt, namespace, name)) for name, weight in shares.items() if weight]
            for namespace, shares in self.weights.items()
        }
        self._held = _begun("", HOLDOUT, "")

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the split that settings ask for: the buckets' weights and namespaces, and the table [split]."""
        weights: dict[str, dict[str, float]] = {}
        for name, bucket in settings.buckets.items():
            if name != settings.split.holdout_bucket:
                weights.setdefault(bucket.namespace, {})[name] = bucket.weight
        return cls(weights, settings.split)

    def bucket_of(self, user: str, namespace: str = "", *, before: str | None = None) -> str:
        """Return the bucket that a user meets; ``before`` is the one met last, if it is known, for a sticky split."""
        drawn = self._drawn.get(namespace)
        if drawn is None:
            raise UnknownNamespace(
                f"no bucket takes users in namespace {namespace!r}; there are {', '.join(map(repr, self._drawn))}"
            )
        name = user.encode()
        held = self._rule.holdout_bucket
        if held is not None and _number(self._held, name) < self._rule.holdout:
            return held
        if self._rule.sticky and before in self.weights[namespace]:
            return before
        if len(drawn) == 1:
            return drawn[0][0]
        return max((log(_number(begun, name)) / weight, bucket) for bucket, weight, begun in drawn)[1]

    def ranked_by(self, bucket: str) -> str:
        """Return the bucket whose model ranks for the users of a bucket: its own, unless this is an A/A test."""
        return self._rule.same_ranking or bucket


def _begun(salt: str, namespace: str, bucket: str) -> bytes:
    return f"{salt}\0{namespace}\0{bucket}\0".encode()


def _number(begun: bytes, user: bytes) -> float:
    """Return a user's number in (0, 1): the first 53 bits of the hash, and a half."""
    return ((int.from_bytes(sha256(begun + user).digest()[:8]) >> 11) + 0.5) / 2.0**53
