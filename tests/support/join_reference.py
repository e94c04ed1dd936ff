"""The join as one would explain it: every event judged with both logs in view, slowly, in plain dictionaries.

It knows nothing of batches, restarts, slots or timers. An event of a log is (offset, time stamp, record or None for
what is no Avro); its key is its session, and garbage has none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import user_hash
from streams.settings import Bucket

END_OF_TIME = 2**61  # stamps beyond count as this
SPARE_BYTES, ID_BYTES = 16_384, 256


@dataclass(frozen=True)
class Era:
    """From these offsets on, these rules hold."""

    impressions: int
    clicks: int
    buckets: Mapping[str, Bucket]
    horizon: int
    future: int

    @property
    def most_bytes(self) -> int:
        return max(one.positions * (8 + 4 * one.dim) for one in self.buckets.values()) + SPARE_BYTES


@dataclass
class Net:
    """What must come of two logs."""

    lists: dict[int, tuple] = field(default_factory=dict)  # impressions offset -> what is learned from it
    dead: set[tuple[str, int]] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    counts: Counter = field(default_factory=Counter)


def look_at_all(
    impressions: Sequence[tuple],
    clicks: Sequence[tuple],
    eras: Sequence[Era],
    silences: Mapping[str, Sequence[tuple[int, int]]] | None = None,
) -> Net:
    """Judge every event.

    ``silences`` are, for each log, from which offset on which floor held because a worker had found the log silent.
    """
    net, accepted, rewards = Net(), [], {}
    held: dict[str, list[int]] = {}  # until which floor each earlier impression of an id holds it
    times = clocks_and_floors("impressions", impressions, eras, silences)
    for (offset, _, event), (clock, floor, stamp) in zip(impressions, times, strict=True):
        era = era_at("impressions", offset, eras)
        if event is None or too_large(event, era):
            net.dead.add(("impressions", offset))
            continue
        fit, in_time = fits(event, era) and event.shown_at_ms <= stamp + era.future, event.shown_at_ms >= floor
        earlier = held.setdefault(event.impression_id, [])
        is_held = any(until >= floor for until in earlier)
        earlier.append(max(clock, event.shown_at_ms) if fit and in_time else clock)
        if not fit or not in_time:
            net.dead.add(("impressions", offset))
            net.counts["too_late"] += fit
        elif not is_held:
            accepted.append((offset, event, era))
            rewards[offset] = {}
        elif any(same_list(event, other) for _, other, _ in accepted):
            net.counts["duplicates"] += 1
        else:
            net.dead.add(("impressions", offset))
    for (offset, _, click), (_, floor, stamp) in zip(
        clicks, clocks_and_floors("clicks", clicks, eras, silences), strict=True
    ):
        era = era_at("clicks", offset, eras)
        if click is None or too_large(click, era) or not is_click(click) or click.clicked_at_ms > stamp + era.future:
            net.dead.add(("clicks", offset))
            continue
        takers = [
            (at, shown, of)
            for at, shown, of in accepted
            if shown.impression_id == click.impression_id
            and floor <= shown.shown_at_ms <= click.clicked_at_ms + era.future
        ]
        if not takers:
            net.late.add(offset)
            continue
        at, shown, of = takers[0]
        scale = of.buckets[shown.bucket].reward_scale  # by the rules of the list, whatever holds now
        if click.session_id != shown.session_id or click.position > shown.size or click.reward > scale:
            net.dead.add(("clicks", offset))
            continue
        net.counts["repeated" if click.position in rewards[at] else "used"] += 1
        rewards[at][click.position] = max(rewards[at].get(click.position, 0.0), click.reward)
    net.lists = {offset: sample(event, rewards[offset]) for offset, event, _ in accepted}
    return net


def clocks_and_floors(name: str, log: Sequence[tuple], eras: Sequence[Era], silences: Mapping | None) -> list[tuple]:
    """Return at each record the log's clock, the date before which lists are closed to it, and its stamp."""
    largest: dict[str | None, int] = {}
    lowest, found = -math.inf, []
    for offset, timestamp, event in log:
        stamp = max(-END_OF_TIME, min(timestamp, END_OF_TIME))
        key = event.session_id if event is not None else None
        largest[key] = max(largest.get(key, -math.inf), stamp)
        clock = sorted([-math.inf, -math.inf, *largest.values()])[-2]
        horizon = era_at(name, offset, eras).horizon
        silence = max((floor for start, floor in (silences or {}).get(name, ()) if start <= offset), default=-math.inf)
        lowest = max(lowest, clock - horizon)
        found.append((clock, max(lowest, stamp - horizon, silence), stamp))
    return found


def era_at(name: str, offset: int, eras: Sequence[Era]) -> Era:
    return [era for era in eras if getattr(era, name) <= offset or era is eras[0]][-1]


def too_large(event: Impression | Click, era: Era) -> bool:
    return len(event.session_id.encode()) + len(encode(event)) > era.most_bytes


def fits(event: Impression, era: Era) -> bool:
    bucket = era.buckets.get(event.bucket)
    if bucket is None or max(len(event.impression_id.encode()), len(event.session_id.encode())) > ID_BYTES:
        return False
    numbers = np.frombuffer(event.contexts, "<f4")
    return (
        1 <= event.rendered <= event.size <= bucket.positions
        and len(numbers) == event.size * bucket.dim
        and bool((np.abs(numbers) <= bucket.context_scale).all())
    )


def is_click(click: Click) -> bool:
    ids = max(len(click.impression_id.encode()), len(click.session_id.encode()))
    return ids <= ID_BYTES and 1 <= click.position <= 50 and 0 <= click.reward < math.inf


def same_list(one: Impression, other: Impression) -> bool:
    return replace(one, user_id="") == replace(other, user_id="")


def sample(event: Impression, clicked: dict[int, float]) -> tuple:
    rows, last = [], 0
    for k in range(1, max(event.rendered, *clicked, 1) + 1):
        context = tuple(event.contexts_array[k - 1].tolist())
        rows.append((int(event.items_array[k - 1]), k, last, clicked.get(k, 0.0), context))
        last = k if clicked.get(k, 0.0) > 0 else last
    list_of = (event.bucket, event.impression_id, event.shown_at_ms, event.ranked_by_offset, tuple(rows))
    users = (user_hash(event.user_id),) if event.split_version or event.propensities else ()
    return *list_of, event.split_version, users, tuple(event.propensities_array[: len(rows)].tolist())
