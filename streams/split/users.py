"""The split of users into buckets: the same user always meets the same algorithm."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b


def bucket_of(user_id: str, buckets: Mapping[str, float] | Iterable[str], salt: str = "") -> str:
    """Return the bucket of a user, drawn by a salted hash in proportion to the buckets' weights.

    Names without weights share equally. The order of the names does not matter, and another salt is another experiment.

    >>> bucket_of("u-17", {"ubm": 0.9, "c2ucb": 0.1}, salt="autumn")
    'c2ucb'
    """
    weights = dict(buckets) if isinstance(buckets, Mapping) else dict.fromkeys(buckets, 1.0)
    total = sum(weights.values())
    if not weights or min(weights.values()) < 0 or not 0 < total < float("inf"):
        raise ValueError(f"bucket weights must be non-negative with a positive sum, got {weights}")
    digest = blake2b(user_id.encode(), digest_size=8, key=blake2b(salt.encode(), digest_size=32).digest())
    left = int.from_bytes(digest.digest(), "big") / 2.0**64 * total
    for name in sorted(weights):
        left -= weights[name]
        if left < 0:
            return name
    return max(name for name in weights if weights[name] > 0)  # the last share, should rounding have left a crumb
