"""Raw events with everything that goes wrong on the way, and what the learners must have learned from them.

The reference below shares no code with the join or the learner: it only says, in a few lines, what the net must be.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from kafka import KafkaProducer

from schemas.codec import encode
from schemas.records import Click, Impression

K, DIM = 12, 10


@dataclass(frozen=True)
class Event:
    """One record of a log, with the time stamp it carries."""

    timestamp_ms: int
    record: Impression | Click


def examination(seed: int) -> np.ndarray:
    """A table that real pages could have: falling with depth, higher behind a click."""
    random = np.random.default_rng(seed)
    distance = np.maximum(np.arange(1, K + 1)[:, None] - np.arange(K), 1)
    return np.tril(random.uniform(0.7, 0.95) * distance ** -random.uniform(0.3, 0.6))


def traffic(
    lists: int, *, buckets: list[str], start_ms: int, span_ms: int, wait_ms: int, lateness_ms: int, seed: int
) -> tuple[list[Event], list[Event]]:
    """Return the impressions log and the clicks log: 5% of events twice, all out of order, 2% of the clicks before
    their impression, 2% late but within lateness; 0.4 clicks a list; contexts are random floats."""
    random = np.random.default_rng(seed)
    shown_at = np.sort(start_ms + random.integers(0, span_ms, lists))
    contexts = random.uniform(-1, 1, (lists, K, DIM)).astype(np.float32)
    items = random.integers(0, 10**6, (lists, K))
    rendered = random.integers(1, K + 1, lists)
    clicked = random.random((lists, K)) < 0.4 / K
    impressions, clicks = [], []
    for i in range(lists):
        name, session, at = f"i{seed}-{i}", f"s{random.integers(lists)}", int(shown_at[i])
        late_ms = int(random.exponential(300))
        shown = Impression(
            name,
            session,
            buckets[int(random.integers(len(buckets)))],
            f"u{i % 997}",
            at,
            items[i].tobytes(),
            contexts[i].tobytes(),
            int(rendered[i]),
        )
        early = bool(clicked[i].any()) and random.random() < 0.02
        arrives = at + (2000 if early else late_ms)
        repeats = 1 + (random.random() < 0.05)
        impressions += [Event(arrives + 500 * again, shown) for again in range(repeats)]
        for position in np.flatnonzero(clicked[i]) + 1:
            after_ms = 100 + int(random.exponential(wait_ms / 10))
            if random.random() < 0.02:
                after_ms = wait_ms + int(random.uniform(0.05, 0.8) * lateness_ms)  # the list is closed already
            elif early:
                after_ms = 500
            click = Click(name, session, int(position), at + after_ms)
            repeats = 1 + (random.random() < 0.05)
            clicks += [Event(at + after_ms + 300 * again, click) for again in range(repeats)]
    return _disordered(impressions, random), _disordered(clicks, random)


def _disordered(events: list[Event], random: np.random.Generator) -> list[Event]:
    """Sort by time stamp, with a jitter of half a second, so that neighbours change places."""
    arrival = np.array([event.timestamp_ms for event in events]) + random.integers(0, 500, len(events))
    return [events[i] for i in np.argsort(arrival)]


def reference(impressions: Iterable[Event], clicks: Iterable[Event], tables: Mapping[str, np.ndarray]):
    """Return A's and b's sums on the grid (in units of 2⁻³²) and the number of lists, by bucket, from raw events."""
    shown = {event.record.impression_id: event.record for event in reversed(list(impressions))}
    clicked = {}
    for event in clicks:
        clicked.setdefault(event.record.impression_id, set()).add(event.record.position)
    net = {bucket: [np.zeros((DIM, DIM)), np.zeros(DIM), 0] for bucket in tables}
    for name, record in shown.items():
        taps, last, w = clicked.get(name, set()), 0, []
        rows = max(record.rendered, *taps) if taps else record.rendered
        for k in range(1, rows + 1):
            w.append(tables[record.bucket][k - 1, last])
            last = k if k in taps else last
        x = np.frombuffer(record.contexts, np.float32).reshape(-1, DIM)[:rows].astype(np.float64)
        z = np.rint(2.0**16 * (np.array(w)[:, None] * x))
        r = np.array([2.0**16 * (k in taps) for k in range(1, rows + 1)])
        net[record.bucket][0] += z.T @ z
        net[record.bucket][1] += z.T @ r
        net[record.bucket][2] += 1
    return net


def learned(state: Mapping[str, np.ndarray]):
    """Return the same three from a snapshot's limbs."""
    whole = {name: state[f"{name}_high"] * 2**40 + state[f"{name}_low"] for name in ("gram", "response")}
    gram = np.zeros((DIM, DIM))
    gram[np.triu_indices(DIM)] = whole["gram"]
    return [gram + np.triu(gram, 1).T, whole["response"].astype(float), int(state["rounds"][0])]


def publish(bootstrap: str, topic: str, events: Iterable[Event], *, encode: Callable[..., bytes] = encode) -> None:
    """Write events with their own time stamps, keyed by session, and wait until all are there."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20, batch_size=1 << 18)
    try:
        for event in events:
            key = event.record.session_id.encode()
            producer.send(topic, encode(event.record), key=key, timestamp_ms=event.timestamp_ms)
        producer.flush(60)
    finally:
        producer.close(10)
