"""The split of users into buckets by weighted rendezvous hashing: nobody is remembered, and few ever move."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from math import inf, log
from typing import Self

from streams.settings import Settings

HOLDOUT = "holdout"  # the namespace, with an empty salt, in which the holdout is drawn: no new salt changes it


class UnknownNamespace(LookupError):
    """A namespace in which no bucket takes users."""


class Split:
    """Sends each user to a bucket, the same one every time, in proportion to the buckets' weights.

    A user has a number in (0, 1) for every bucket, from a hash, and meets the bucket with the largest ln(number) /
    weight. So when a weight grows users move into that bucket and nowhere else, when it falls only out of it, and a new
    bucket takes from all in proportion. Weights count in proportion: 1 and 3 are a quarter and three quarters.

    Parameters
    ----------
    weights
        Of each namespace's buckets; a bucket of weight 0 takes nobody new.
    salt
        Another salt splits anew, independently.
    holdout, holdout_bucket
        The share of users who meet this bucket in every namespace, and whatever the salt.
    sticky
        Whether a user known to have met a bucket stays there as long as it is one of the namespace.
    same_ranking
        A/A: the bucket whose model ranks in every bucket.

    Examples
    --------
    >>> split = Split({"": {"ubm": 0.9, "c2ucb": 0.1}}, salt="autumn")
    >>> split.bucket_of("u-17"), split.version
    ('ubm', '253ce53bb547')
    """

    def __init__(
        self,
        weights: Mapping[str, Mapping[str, float]],
        *,
        salt: str = "",
        holdout: float = 0.0,
        holdout_bucket: str | None = None,
        sticky: bool = False,
        same_ranking: str | None = None,
    ) -> None:
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
        self.holdout, self.holdout_bucket, self.sticky = holdout, holdout_bucket, sticky
        self.same_ranking = same_ranking
        rule = [salt, self.weights, float(holdout), holdout_bucket, sticky, same_ranking]
        self.version = sha256(json.dumps(rule, sort_keys=True).encode()).hexdigest()[:12]
        self._drawn = {
            namespace: [(name, weight, _begun(salt, namespace, name)) for name, weight in shares.items() if weight > 0]
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
        split = settings.split
        return cls(
            weights,
            salt=split.salt,
            holdout=split.holdout,
            holdout_bucket=split.holdout_bucket,
            sticky=split.sticky,
            same_ranking=split.same_ranking,
        )

    def bucket_of(self, user: str, namespace: str = "", *, before: str | None = None) -> str:
        """Return the bucket that a user meets; ``before`` is the one met last, if it is known, for a sticky split."""
        drawn = self._drawn.get(namespace)
        if drawn is None:
            raise UnknownNamespace(
                f"no bucket takes users in namespace {namespace!r}; there are {', '.join(map(repr, self._drawn))}"
            )
        name = user.encode()
        if self.holdout_bucket is not None and _number(self._held, name) < self.holdout:
            return self.holdout_bucket
        if self.sticky and before in self.weights[namespace]:
            return before
        if len(drawn) == 1:
            return drawn[0][0]
        return max((log(_number(begun, name)) / weight, bucket) for bucket, weight, begun in drawn)[1]

    def ranked_by(self, bucket: str) -> str:
        """Return the bucket whose model ranks for the users of a bucket: its own, unless this is an A/A test."""
        return self.same_ranking or bucket


def _begun(salt: str, namespace: str, bucket: str) -> bytes:
    return f"{salt}\0{namespace}\0{bucket}\0".encode()


def _number(begun: bytes, user: bytes) -> float:
    """Return a user's number in (0, 1): the first 53 bits of the hash, and a half."""
    return ((int.from_bytes(sha256(begun + user).digest()[:8]) >> 11) + 0.5) / 2.0**53
