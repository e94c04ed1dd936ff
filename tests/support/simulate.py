"""Run the simulation: python tests/support/simulate.py FIRST STOP [BUG]; one seed replays with FIRST FIRST+1.

Prints how many seeds each kind of fault struck with work pending, and the seeds that failed; with a bug, ends at the
first seed that finds it. The exit code is 1 when a seed failed.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections import Counter

from simulated_bugs import BUGS
from simulation import Simulation


def main(first: int, stop: int, bug: str = "") -> int:
    """Run seeds and print what came of them."""
    if stop - first > 1:
        logging.disable(logging.CRITICAL)
    if bug:
        BUGS[bug]()
    struck: Counter[str] = Counter()
    failed: dict[int, str] = {}
    calls = 0
    for seed in range(first, stop):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Exception as error:
            failed[seed] = f"{type(error).__name__}: {error}"
            if stop - first == 1:
                traceback.print_exc()
            if bug:
                break
        struck.update(set(simulation.struck))
        calls += simulation.cluster.calls
    print(json.dumps({"failed": failed, "struck": dict(sorted(struck.items())), "calls": calls}))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
