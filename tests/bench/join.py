"""The pure join: CPU per impression (K=12, d=10, 0.4 clicks a list), with decoding and with encoding, no broker."""

from __future__ import annotations

import sys
import time

import numpy as np

from schemas.codec import decode, encode
from schemas.records import Click, Impression
from streams.events import Acceptance, EventReader
from streams.join import SessionJoin
from streams.logs import LogRecord
from streams.settings import Bucket

POSITIONS, DIM, CLICKS = 12, 10, 0.4
BATCH = 2_000  # impressions of one poll


def logs(lists: int, *, rate: float = 20_000.0, seed: int = 1) -> tuple[list[LogRecord], list[LogRecord]]:
    """Return impressions and clicks at ``rate`` lists a second; clicks follow within seconds, one in fifty later."""
    rng = np.random.default_rng(seed)
    shown = (1_700_000_000_000 + np.arange(lists) * 1000 / rate).astype(int).tolist()
    contexts = rng.uniform(-0.3, 0.3, (1000, POSITIONS, DIM)).astype("<f4")
    impressions, taps = [], []
    for number, shown_at in enumerate(shown):
        name = f"{rng.integers(1 << 60):015x}-{number:012d}"
        items = rng.integers(0, 1_000_000, POSITIONS).astype("<i8")
        event = Impression(
            *(name, f"session-{number:09d}", "a", f"user-{number % 9973:06d}", shown_at),
            *(items.tobytes(), contexts[number % 1000].tobytes(), POSITIONS, 1, 1000 + number // 5000),
        )
        impressions.append(LogRecord(number, shown_at, event.session_id.encode(), encode(event)))
        for _ in range(rng.poisson(CLICKS)):
            at = shown_at + int(rng.integers(500, 5_000) if rng.random() < 0.98 else rng.integers(10_000, 18_000))
            taps.append((at, Click(name, event.session_id, int(rng.integers(1, POSITIONS + 1)), at)))
    taps.sort(key=lambda tap: tap[0])
    clicks = [LogRecord(n, at, click.session_id.encode(), encode(click)) for n, (at, click) in enumerate(taps)]
    return impressions, clicks


def new_join(*, wait_ms: int = 10_000, lateness_ms: int = 10_000) -> SessionJoin:
    """Return a join of one bucket."""
    bucket = Bucket("a", dim=DIM, positions=POSITIONS)
    return SessionJoin(
        Acceptance({"a": bucket}, future_ms=300_000), wait_ms=wait_ms, lateness_ms=lateness_ms, reader=EventReader()
    )


def run(lists: int) -> None:
    """Print the CPU that each part takes."""
    impressions, clicks = logs(lists)
    started = time.process_time()
    for record in impressions:
        decode(record.value, Impression)
    for record in clicks:
        decode(record.value, Click)
    decoding = time.process_time() - started

    join, samples, tapped = new_join(), [], 0
    started = time.process_time()
    for start in range(0, lists, BATCH):
        records = impressions[start : start + BATCH]
        join.add_impressions(records)
        until = tapped
        while until < len(clicks) and clicks[until].timestamp <= records[-1].timestamp:
            until += 1
        join.add_clicks(clicks[tapped:until])
        tapped = until
        samples += join.checkpoint(min(join.impressions.clock, join.clicks.clock)).samples
    joining = time.process_time() - started
    started = time.process_time()
    size = sum(len(encode(batch)) for batch in samples)
    encoding = time.process_time() - started
    print(f"join_decode {decoding / lists * 1e6:.2f} us/impression")
    print(f"join_with_decode {joining / lists * 1e6:.2f} us/impression")
    print(f"join_encode {encoding / lists * 1e6:.2f} us/impression")
    print(f"join_sample_bytes {size / lists:.0f} B/impression")
    print(f"join_rate {lists / (joining + encoding):.0f} impressions/s")


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 400_000)
