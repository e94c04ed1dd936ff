"""The stream jobs on a real broker, with either client, beside loops and frameworks without any guarantee, in turns.

K = 12, d = 10, four partitions, 0.4 clicks a list, wait and lateness 10 s, exactly once. The logs are written first,
then read as fast as they can be. Prints medians as `name value unit`: impressions a second, CPU and memory of all
processes, ratios; frameworks have shorter logs of the same make.
`python tests/bench/throughput.py [LISTS [ALTERNATIONS [COMPRESSION]]]`: lz4, zstd or none, of the events on the wire;
without alternations a killed join is restarted, and nothing else is measured.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import psutil

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from backlog import Progress, catch_up, filled, ready, settings_of  # noqa: E402
from framework_joins import SCRIPTS, python_with, run_framework  # noqa: E402
from jobs import Jobs, wait_until  # noqa: E402
from plain_loops import Measured, confluent_loop, kafka_python_loop  # noqa: E402

from streams.broker import GIVE_BACK_S  # noqa: E402
from streams.local.kafka import LocalKafka  # noqa: E402
from streams.settings import Settings  # noqa: E402

FRAMEWORK_LISTS = 20_000  # all of a log, for clicks come faster than lists; they take the slowest 10 s


def restart(settings: Settings, folder: Path, lists: int) -> tuple[float, float, float]:
    """Return the bytes of an open list, and the seconds until a killed join is ready, of all and since assigned.

    What it reads is assigned once it says from where it goes on.
    """
    jobs = Jobs(settings, folder)
    try:
        first = jobs.start("join", "--from", "earliest")
        wait_until(lambda: ready(settings.join_web_port), timeout_s=60, jobs=jobs)
        empty = psutil.Process(first.pid).memory_info().rss
        with closing(Progress(settings)) as progress:
            wait_until(progress.all_done, timeout_s=600, jobs=jobs)
        time.sleep(GIVE_BACK_S + 5)  # by then what reading took is given back
        full = psutil.Process(first.pid).memory_info().rss
        jobs.kill(first)
        started = time.monotonic()
        printed = jobs.logs[jobs.start("join").pid]
        wait_until(lambda: "after rereading" in printed.read_text(), timeout_s=120, jobs=jobs, every_s=0.05)
        assigned = time.monotonic()
        wait_until(lambda: ready(settings.join_web_port), timeout_s=120, jobs=jobs, every_s=0.05)
        return (full - empty) / lists, time.monotonic() - started, time.monotonic() - assigned
    finally:
        jobs.close()


def main(lists: int, alternations: int, compression: str | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        broker = LocalKafka(folder / "kafka", heap_mb=1024)
        broker.start()
        try:
            if alternations:
                compare(broker.bootstrap, folder, lists, alternations, compression)
            restarts(broker.bootstrap, folder, lists)
        finally:
            broker.stop()


def note(runs: dict[str, list[Measured]], name: str, found: Measured) -> None:
    """Keep what one run took, and say it at once: the whole takes minutes."""
    runs.setdefault(name, []).append(found)
    print(
        f"# {name}: {found.rate:.0f} impressions/s, {found.cpu_s:.2f} CPU s/100000, {found.memory_mb:.0f} MB",
        flush=True,
    )


def installed() -> dict[str, str]:
    """Return the frameworks to compare with, and in which Python each is; say which are missing."""
    found = {name: python_with(name) for name in SCRIPTS}
    for name in (name for name, python in found.items() if python is None):
        print(f"# {name} is not installed: make bench installs it in .venv/peers", flush=True)
    return {name: python for name, python in found.items() if python is not None}


def compare(bootstrap: str, folder: Path, lists: int, alternations: int, compression: str | None) -> None:
    """Let ours and theirs take turns, and print medians and ratios."""
    runs: dict[str, list[Measured]] = {}
    frameworks = installed()
    for turn in range(alternations):
        for client in ("kafka-python", "confluent"):
            made = settings_of(bootstrap, f"{client}-{turn}-", kafka_client=client)
            settings = filled(made, lists, compression=compression)
            note(runs, f"ours-{client}", catch_up(settings, folder, lists))
        for name, loop in (("kafka-python-loop", kafka_python_loop), ("confluent-fastavro-loop", confluent_loop)):
            with multiprocessing.get_context("spawn").Pool(1) as pool:  # the logs of the last run, once more
                note(runs, name, pool.apply(loop, (settings, lists)))
        few = min(lists, FRAMEWORK_LISTS)
        settings = filled(settings_of(bootstrap, f"frameworks-{turn}-"), few, compression=compression)
        for name, python in frameworks.items():
            place = folder / f"{name}-{turn}"
            place.mkdir()
            note(runs, f"plain-{name}", run_framework(python, name, settings, place, few))
    medians = {name: Measured(*map(median, zip(*found, strict=True))) for name, found in runs.items()}
    for name, found in medians.items():
        for value, unit in zip(found, ("impressions/s", "CPU s/100000", "MB"), strict=True):
            print(f"{name} {value:.3g} {unit}", flush=True)
    pairs = [("ours-kafka-python", "kafka-python-loop"), ("ours-confluent", "confluent-fastavro-loop")]
    for ours, theirs in [*pairs, *(("ours-kafka-python", f"plain-{name}") for name in frameworks)]:
        for what in ("rate", "cpu_s", "memory_mb"):
            ratio = getattr(medians[ours], what) / getattr(medians[theirs], what)
            print(f"{ours}_{what}_times_{theirs} {ratio:.2f} ratio", flush=True)


def restarts(bootstrap: str, folder: Path, lists: int) -> None:
    """Kill and restart joins with open lists: one that the group has to give up first, and static members."""
    for client, name in (("kafka-python", None), ("kafka-python", "join-1"), ("confluent", "join-1")):
        prefix = f"open-{client}-{name}-"
        settings = settings_of(bootstrap, prefix, wait_s=86_000.0, group_instance_id=name, kafka_client=client)
        (folder / prefix).mkdir()
        memory, seconds, assigned = restart(filled(settings, lists), folder / prefix, lists)
        who = f"{client}_static_member" if name else client
        print(f"join_process_growth_{client} {memory:.0f} B/open list")
        print(f"restart_with_open_lists_{who} {seconds:.3g} s/{lists}")
        print(f"restart_with_open_lists_{who}_since_assigned {assigned:.3g} s/{lists}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:] + ["300000", "3", "none"][len(sys.argv) - 1 :]
    main(int(words[0]), int(words[1]), None if words[2] == "none" else words[2])
