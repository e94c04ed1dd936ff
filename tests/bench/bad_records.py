"""What bad records cost the good: the stream jobs on logs with and without them, in turns.

One record in a hundred more is none that anybody can read; good lists alone are counted. On a machine whose speed
changes within seconds two turns differ by more than is looked for: so there are many, and each log is written once and
read again and again. Prints the mean ratio of neighbours (geometric), and between what the true one lies with a
confidence of 95%. `python tests/bench/bad_records.py [LISTS [PAIRS]]`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import t as student

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from backlog import catch_up, filled, forget, settings_of  # noqa: E402

from streams.local.kafka import LocalKafka  # noqa: E402

KINDS = {"none-bad": 0, "1%-bad": 100}


def main(lists: int, pairs: int) -> None:
    """Let both logs be read in turns, each the first in every second pair."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    with tempfile.TemporaryDirectory() as place:
        broker = LocalKafka(Path(place) / "kafka", heap_mb=1024)
        broker.start()
        try:
            logs = {
                name: filled(settings_of(broker.bootstrap, f"spoilt-{bad_every}-"), lists, bad_every=bad_every)
                for name, bad_every in KINDS.items()
            }
            for turn in range(pairs):
                for name in sorted(KINDS, reverse=turn % 2 == 0):
                    took = catch_up(logs[name], Path(place), lists)
                    runs[name].append((took.rate, took.cpu_s))
                    print(f"# {name}: {took.rate:.0f} impressions/s, {took.cpu_s:.2f} CPU s/100000", flush=True)
                    forget(logs[name])
        finally:
            broker.stop()
    tell(np.log(runs["1%-bad"]) - np.log(runs["none-bad"]))


def tell(ratios: np.ndarray) -> None:
    """Print means and bounds of the logarithms of ratios: of rates, and of CPU."""
    around = student.ppf(0.975, len(ratios) - 1) * ratios.std(axis=0, ddof=1) / np.sqrt(len(ratios))
    for column, name in enumerate(("rate", "cpu_s")):
        for which, sign in (("", 0), ("_least", -1), ("_most", 1)):
            found = np.exp(ratios[:, column].mean() + sign * around[column])
            print(f"{name}_with_1%_bad_times_without{which} {found:.3f} ratio", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] + ["300000", "9"][len(sys.argv) - 1 :]))
