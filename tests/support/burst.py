"""Traffic that becomes ten times as dense for a while, and what real workers hold meanwhile."""

import time

from exactly_once import BUCKETS, Learned
from jobs import Jobs, wait_until
from joined import commits, load
from poison import peak_mb
from steady_load import resident_mb
from traffic import traffic

from streams.join.job.worker import MAINTAIN_EVERY_S

WAIT_S = LATENESS_S = 20.0
BYTES_A_LIST = 1_500  # in the join, beside
SPARE_MB = 100.0  # what was fetched and what is to be written
LEARN_MB = 100.0  # a round at a time


def burst(settings_for, folder, *, rate: int, burst_s: int) -> None:
    """Write ten times ``rate`` lists a second for so long, between times of ``rate``: exact, and memory comes back."""
    settings = settings_for(buckets=BUCKETS, wait_s=WAIT_S, lateness_s=LATENESS_S, partitions=2, publish_every_s=0.3)
    horizon_s = WAIT_S + LATENESS_S
    spans = [(3 * horizon_s, rate), (burst_s, 10 * rate), (4 * horizon_s, rate)]
    start_s = time.time() - 3_600
    parts = []
    for seed, (span_s, lists_a_second) in enumerate(spans):
        times = {"start_ms": int(start_s * 1000), "span_ms": int(span_s * 1000)}
        waits = {"wait_ms": int(WAIT_S * 1000), "lateness_ms": int(LATENESS_S * 1000)}
        parts.append(traffic(int(span_s * lists_a_second), buckets=list(BUCKETS), **times, **waits, seed=seed))
        start_s += span_s
    whole = tuple(
        sorted((event for part in parts for event in part[log]), key=lambda e: e.timestamp_ms) for log in (0, 1)
    )
    result, jobs = Learned(settings, *whole), Jobs(settings, folder)
    workers = {"join": jobs.start("join", "--from", "earliest"), "learn": jobs.start("learn")}
    written = 0

    def caught_up() -> bool:
        ledgers = [commit.ledger for commit in commits(settings)]
        return sum(ledger.impressions + ledger.clicks for ledger in ledgers) == written

    held = []
    try:
        for part in parts:
            load(settings, *part)
            written += sum(map(len, part))
            wait_until(caught_up, timeout_s=120, jobs=jobs)
            held.append({kind: resident_mb(worker) for kind, worker in workers.items()})
        wait_until(result.complete, timeout_s=60, jobs=jobs)
        time.sleep(MAINTAIN_EVERY_S + 2)  # it looks now and then
        after = {kind: resident_mb(worker) for kind, worker in workers.items()}
        peak = {kind: peak_mb(worker.pid) for kind, worker in workers.items()}
    finally:
        jobs.close()
        result.close()
    before, most = held[0], 10 * rate * min(burst_s, horizon_s)
    print(f"before {before}, peak {peak}, after {after}")
    assert peak["join"] < before["join"] + most * BYTES_A_LIST / 1e6 + SPARE_MB
    assert peak["learn"] < before["learn"] + LEARN_MB
    assert after["join"] - before["join"] < 0.5 * (peak["join"] - before["join"])
