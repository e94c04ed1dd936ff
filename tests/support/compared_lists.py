"""Sample batches with users and times, and what a plain loop makes of them."""

from collections import defaultdict

import numpy as np

from schemas.records import SampleBatch

START_MS = 1_700_000_000_000 // 60_000 * 60_000
K = 3


def batch_of(bucket, users, minutes, clicks, *, signs=None, split="s1", first=0, items=None, contexts=None):
    """Return a batch of one list per user: clicks is (lists, positions) of 0 and 1, minutes count from START_MS."""
    clicks = np.asarray(clicks)
    lists, deep = clicks.shape
    last = np.maximum.accumulate(np.where(clicks > 0, np.arange(1, deep + 1), 0), axis=1)
    return SampleBatch(
        bucket=bucket,
        dim=1 if contexts is None else contexts.shape[2],
        items=(np.zeros(lists * deep) if items is None else items).astype("<i8").tobytes(),
        positions=np.tile(np.arange(1, deep + 1, dtype="u1"), lists).tobytes(),
        last_clicks=np.hstack((np.zeros((lists, 1), "u1"), last[:, :-1].astype("u1"))).tobytes(),
        rewards=clicks.astype("<f8").tobytes(),
        contexts=(np.zeros(lists * deep) if contexts is None else contexts).astype("<f4").tobytes(),
        impression_ids=[f"{bucket}-{first + number}" for number in range(lists)],
        sizes=np.full(lists, deep, "u1").tobytes(),
        signs=(np.ones(lists) if signs is None else np.asarray(signs)).astype("i1").tobytes(),
        shown_at_ms=(START_MS + np.asarray(minutes) * 60_000).astype("<i8").tobytes(),
        source_partitions=np.zeros(lists, "<i4").tobytes(),
        source_offsets=np.arange(first, first + lists, dtype="<i8").tobytes(),
        ranked_by_epochs=np.zeros(lists, "<i4").tobytes(),
        ranked_by_offsets=np.zeros(lists, "<i8").tobytes(),
        split_version=split,
        user_hashes=np.asarray(users).astype("<u8").tobytes() if users is not None else b"",
    )


def traffic(bucket, *, lists, chance, seed, users=None, minutes=120, split="s1"):
    """Return one batch of ``lists`` lists in the order of time; buckets share no user."""
    rng = np.random.default_rng([seed, *bucket.encode()])
    base = 1 + (sum(bucket.encode()) << 32)
    who = base + (np.arange(lists) if users is None else rng.integers(users, size=lists))
    when = np.sort(rng.integers(minutes, size=lists))
    return batch_of(bucket, who, when, rng.random((lists, K)) < chance, split=split)


def by_hand(batches):
    """Return lists, users and both rates of each bucket, by a plain loop."""
    net = defaultdict(lambda: [0, 0, 0])
    users = defaultdict(lambda: defaultdict(int))
    for batch in batches:
        clicks = batch.rewards_array.reshape(-1, K) > 0
        for number, sign in enumerate(batch.signs_array.tolist()):
            found = net[batch.bucket]
            found[0] += sign
            found[1] += sign * int(clicks[number].sum())
            found[2] += sign * bool(clicks[number].any())
            users[batch.bucket][int(batch.user_hashes_array[number])] += sign
    return {
        bucket: (lists, sum(many > 0 for many in users[bucket].values()), clicks / lists, clicked / lists)
        for bucket, (lists, clicks, clicked) in net.items()
    }
