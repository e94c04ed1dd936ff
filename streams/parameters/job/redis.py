"""The online key-value store: one Redis hash per bucket holds its newest snapshot, never replaced by an older one."""

import logging
from dataclasses import replace
from hashlib import sha1
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.records import Snapshot
from streams.logs import SourceAway
from streams.parameters.snapshot import Version, load_snapshot
from streams.parameters.stores import SnapshotStore
from streams.settings import Settings

log = logging.getLogger(__name__)

TIMEOUT_S = 1.0  # a store that needs longer than this is away; the next round tries again

# KEYS[1] the bucket's hash; ARGV epoch, offset, digest of the bytes, id of the samples topic, the bytes (left out: only
# ask). Returns 1 when the store lacks this snapshot: nothing or something else there, older, or of this version but
# damaged; -1 when it holds a higher version that was learned from another topic, -2 one of this topic; 2 when asked
# only and it holds other bytes of this version.
PUT = """
local known = redis.call('TYPE', KEYS[1]).ok
if known == 'hash' then
    local fields = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'snapshot', 'topic')
    local epoch, offset = tonumber(fields[1]), tonumber(fields[2])
    if epoch and offset and fields[3] then
        local newer = tonumber(ARGV[1]) - epoch
        if newer == 0 then newer = tonumber(ARGV[2]) - offset end
        if newer < 0 then
            if fields[4] and fields[4] ~= ARGV[4] then return -1 end
            return -2
        end
        if newer == 0 and redis.sha1hex(fields[3]) == ARGV[3] then return 0 end
        if newer == 0 and not ARGV[5] then return 2 end
    end
end
if ARGV[5] then
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'offset', ARGV[2], 'topic', ARGV[4], 'snapshot', ARGV[5])
end
return 1
"""


class RedisParameters(SnapshotStore):
    """Snapshots by bucket in Redis, under ``glimpse:<prefix>parameters:<bucket>``.

    A hash has the fields ``epoch``, ``offset``, ``topic`` (the id of the samples topic) and ``snapshot`` (the bytes of
    the whole record), so that a ranker can ask for the version without fetching the rest.
    """

    name, schemes = "redis", ("redis", "rediss", "unix")

    @classmethod
    def at(cls, address: str, settings: Settings) -> Self:
        """Return the store that the settings name, or the one at an address."""
        return cls(settings if address == cls.name else replace(settings, redis=address))

    @classmethod
    def online(cls, settings: Settings) -> str | None:
        """Return the address of Redis in the settings."""
        return settings.redis

    def __init__(self, settings: Settings) -> None:
        if settings.redis is None:
            raise ValueError('redis is not set: give its address, such as redis = "redis://127.0.0.1:6379/0"')
        self.prefix = f"glimpse:{settings.topic_prefix}parameters:"
        options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S, **settings.redis_client()}
        self._redis = redis.Redis.from_url(settings.redis, retry=Retry(NoBackoff(), 1), **options)
        self._put = self._redis.register_script(PUT)
        self._said: set[str] = set()  # buckets whose trouble was told
        pool = self._redis.connection_pool.connection_kwargs
        self.address = str(pool.get("path") or f"{pool.get('host')}:{pool.get('port')}")  # without the password

    def key(self, bucket: str) -> str:
        """Return the key of a bucket."""
        return self.prefix + bucket

    def put(self, snapshot: Snapshot, data: bytes) -> bool:
        """Write ``data``, the bytes of ``snapshot``, where the store lacks it; only then do they travel."""
        key = [self.key(snapshot.bucket)]
        version: list[int | str] = [*snapshot.version, sha1(data).hexdigest(), snapshot.samples_topic_id]
        try:
            lacks = self._put(key, version)
            if lacks in (-2, 2) and not self.has(snapshot):
                self._redis.delete(key[0])
                lacks = 1
            if lacks == -1 and snapshot.bucket not in self._said:
                self._said.add(snapshot.bucket)
                log.error(
                    "Redis at %s keeps a higher version of %s that was learned from another samples topic, and rankers "
                    "get that one; raise the epoch of bucket %s, or delete the key",
                    self.address,
                    key[0],
                    snapshot.bucket,
                )
            return bool(lacks > 0 and self._put(key, [*version, data]) > 0)
        except redis.RedisError as error:
            raise SourceAway(f"Redis at {self.address} does not take {key[0]}: {error}") from error

    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's snapshot, or None when there is none newer than ``after``."""
        key = self.key(bucket)
        fields: Any
        try:
            if after is not None:
                fields = self._redis.hmget(key, ["epoch", "offset"])
                if None in fields or _version(*fields) <= after:
                    return None
            fields = self._redis.hmget(key, ["snapshot"])
        except redis.RedisError as error:
            raise SourceAway(f"Redis at {self.address} does not give {key}: {error}") from error
        if fields[0] is None:
            return None
        snapshot = load_snapshot(fields[0])
        return snapshot if after is None or snapshot.version > after else None

    def buckets(self) -> list[str]:
        """Return the buckets that have a key in the store."""
        try:
            keys = list(self._redis.scan_iter(f"{self.prefix}*", count=1000))
        except redis.RedisError as error:
            raise SourceAway(f"Redis at {self.address} does not list {self.prefix}*: {error}") from error
        return sorted(key.decode("utf-8", "replace").removeprefix(self.prefix) for key in keys)

    def where(self, bucket: str) -> str:
        """Return the bucket's key and the server."""
        return f"{self.key(bucket)!r} in Redis at {self.address}"

    def close(self) -> None:
        """Close connections."""
        self._redis.close()


def _version(epoch: bytes, offset: bytes) -> Version:
    """Return a version as the hash holds it; damaged digits count as new, so that the snapshot itself is looked at."""
    try:
        return int(epoch), int(offset)
    except ValueError:
        return 1 << 31, 0
