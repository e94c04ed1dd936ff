"""Half an hour of live traffic (SOAK_S seconds): memory does not grow, and no file or socket is left open."""

import os
import time

import numpy as np
import pytest
from jobs import Jobs, wait_until
from sample_batches import all_algorithms
from steady_load import SteadyLoad, descriptors, resident_mb

from streams.parameters.job import KafkaParameters

SECONDS = float(os.environ.get("SOAK_S", "1800"))
RATE, EVERY_S = 60, 2.0
WARM = 1 / 3  # of the time: pools, caches and allocators fill at first


@pytest.mark.timeout(int(SECONDS) + 300)
def test_memory_and_descriptors_stay_where_they_are(settings_for, redis_url, tmp_path):
    settings = settings_for(
        buckets=all_algorithms(), wait_s=5.0, lateness_s=5.0, redis=redis_url, timestamps="LogAppendTime"
    )
    jobs = Jobs(settings, tmp_path)
    workers = {"join": jobs.start("join", "--from", "earliest"), "learn": jobs.start("learn")}
    load, reader = SteadyLoad(settings, rate=RATE), KafkaParameters(settings)

    def lists() -> int:
        reader.catch_up(timeout_s=60)
        return sum(snapshot.rounds for snapshot in reader.snapshots.values())

    try:
        wait_until(lambda: lists() > 0, timeout_s=60, jobs=jobs)
        held: dict[str, list[tuple[float, float, int]]] = {kind: [] for kind in workers}
        began = time.monotonic()
        while (passed_s := time.monotonic() - began) < SECONDS:
            for kind, worker in workers.items():
                held[kind].append((passed_s, resident_mb(worker), descriptors(worker)))
            jobs.check()
            time.sleep(EVERY_S)
        load.end()
        wait_until(lambda: lists() == load.lists, timeout_s=60, jobs=jobs)
    finally:
        jobs.close()
        reader.close()
    for kind, seen in held.items():
        at_s, mb, files = np.array(seen)[int(WARM * len(seen)) :].T
        growth_mb = np.polyfit(at_s, mb, 1)[0] * (at_s[-1] - at_s[0])
        print(f"{kind}: {load.lists} lists, {mb.mean():.1f} MB, grew by {growth_mb:+.2f} MB", end=", ")
        print(f"{files.min():.0f} to {files.max():.0f} descriptors")
        assert abs(growth_mb) < 0.01 * mb.mean()
        assert files.max() - files.min() <= 2, "a connection may be made anew, and another be asked for a page"
