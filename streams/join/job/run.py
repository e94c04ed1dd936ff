"""The join as a process: joins until SIGTERM, with health and metrics on a port."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading

from streams.broker import GIVE_BACK_S, give_memory_back, keep_freed_memory, log_of_job, open_broker, require_topics
from streams.join.job.worker import JoinJob
from streams.settings import Settings
from streams.web import Health

log = logging.getLogger(__name__)

OVERHEAD_BYTES = 260  # of a list, beside its positions: id, dictionary entry and the columns of whole lists
REREAD_RATE = 40_000  # impressions a second
GARBAGE_EVERY = 100_000  # new objects; with Python's own 700 a fifth of the time goes into looking for garbage
LEAVE_WITHIN_S = 8.0  # after SIGTERM; a kill is safe at any instant


def run_join(settings: Settings, *, start: str | None = None, anew: bool = False) -> int:
    """Join until SIGTERM or Ctrl-C; return the exit code."""
    keep_freed_memory()
    require_topics(settings)  # before there is a log: what cannot work is said in one line
    log_of_job()
    job = JoinJob(settings, open_broker(settings), start=start, anew=anew)

    def stop(number: int, frame: object) -> None:
        if not job.stopping.is_set():
            job.stopping.set()
            # While the broker is away a commit would wait for it. Leaving without one is safe: it is what a kill does.
            last = threading.Timer(LEAVE_WITHIN_S, os._exit, args=(0,))
            last.daemon = True
            last.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    log.info(costs(settings))
    gc.freeze()  # what is there now stays; and of the records of a poll hardly one is ever part of a cycle
    gc.set_threshold(GARBAGE_EVERY)
    threading.Thread(target=stay_small, args=(job.stopping,), daemon=True).start()
    watch, host, port = job.watch, settings.web_host, settings.join_web_port
    with Health(live=watch.live, ready=watch.ready, metrics=watch.figures.render, host=host, port=port) as health:
        log.info("health and metrics on %s", health.url)
        job.run()
    return 0


def stay_small(stopping: threading.Event) -> None:
    """Give back what was freed, now and then, until the job stops."""
    while not stopping.wait(GIVE_BACK_S):
        give_memory_back()


def costs(settings: Settings) -> str:
    """Return what the join will take, in one line.

    >>> from streams.settings import Bucket
    >>> costs(Settings(buckets={"main": Bucket("main")}))
    'each 1000 impressions/s take about 1.1 GB of memory, and a restart at most 98 s: horizon 1200 s, 0.9 KB a list'
    """
    # A list of one horizon ago may have taken a click that is still needed, and so be needed itself to explain it; an
    # impression of one horizon before may have held its id.
    reread_s = 3 * settings.horizon_s + settings.future_s
    list_kb = (
        max(OVERHEAD_BYTES + bucket.positions * (4 * bucket.dim + 16) for bucket in settings.buckets.values()) / 1000
    )
    return (
        f"each 1000 impressions/s take about {list_kb * settings.horizon_s / 1000:.1f} GB of memory, and a restart "
        f"at most {reread_s * 1000 / REREAD_RATE:.0f} s: horizon {settings.horizon_s:g} s, {list_kb:.1f} KB a list"
    )
