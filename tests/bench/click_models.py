"""How fast UBM is learned, beside a plain loop over lists doing the same EM in the same run.

Prints `name value unit` per line. A list-iteration is one list in one iteration of EM; "prepared" counts the iterations
alone, "whole" a call of `fit` on arrays with its checks, ids and collapsing, 50 iterations.
"""

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from learner.browsing import previous_click
from learner.click_models import PBM, UBM
from learner.click_models.em import Cells, maximise
from learner.click_models.ids import Pairs
from learner.click_models.log import ClickLog, read_log

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from single_rows import single_rows  # noqa: E402

ITERATIONS = 50
LOOPED = 1500  # lists that the plain loop gets: it needs no more to be measured
SHARED = ROOT.parent / "shared" / "data"


def yandex() -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """Return yandex_train as arrays, or where it is missing a log of its size from simulated readers."""
    path = SHARED / "yandex_train.jsonl.gz"
    if path.exists():
        with gzip.open(path) as lines:
            pages = [json.loads(line) for line in lines]
        return "yandex_train", *(np.array([page[field] for page in pages]) for field in ("items", "clicks", "query"))
    random = np.random.default_rng(7)
    queries = np.minimum(random.geometric(0.3, 32_670), 15) - 1
    variants = np.argsort(random.random((15, 12, 20)), axis=2)[:, :, :10]  # a query has a few pages, most shown often
    items = variants[queries, np.minimum(random.geometric(0.4, len(queries)), 12) - 1]
    clicks = random.random(items.shape) < 0.4 / np.arange(1, 11)
    return "simulated", items, clicks.astype(np.int64), queries


def fastest(work: Callable[[], object], repeats: int) -> float:
    """Return the seconds of the fastest run."""
    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def plain_loop(pair: list[list[int]], clicks: list[list[int]], pairs: int, iterations: int) -> list[float]:
    """Fit UBM one list after the other, with everything looked up beforehand; return w, row by row of the triangle."""
    positions = len(clicks[0])
    attract, exam = [0.5] * pairs, [0.5] * (positions * (positions + 1) // 2)
    for _ in range(iterations):
        attract_sum, attract_rows = [1.0] * len(attract), [2] * len(attract)
        exam_sum, exam_rows = [1.0] * len(exam), [2] * len(exam)
        for shown, clicked in zip(pair, clicks, strict=True):
            last = row = 0
            for rank, item in enumerate(shown):
                row += rank
                cell = row + last
                if clicked[rank]:
                    attract_sum[item] += 1.0
                    exam_sum[cell] += 1.0
                    last = rank + 1
                else:
                    a, w = attract[item], exam[cell]
                    neither = 1.0 - a * w
                    attract_sum[item] += a * (1.0 - w) / neither
                    exam_sum[cell] += w * (1.0 - a) / neither
                attract_rows[item] += 1
                exam_rows[cell] += 1
        attract = [total / rows for total, rows in zip(attract_sum, attract_rows, strict=True)]
        exam = [total / rows for total, rows in zip(exam_sum, exam_rows, strict=True)]
    return exam


def ubm_cells(log: ClickLog) -> Cells:
    """Return what EM iterates over."""
    rank = np.arange(log.positions)
    cell = rank * (rank + 1) // 2 + previous_click(log.clicks)
    pairs, pair = Pairs.met_in(log.items, log.queries, log.sizes)
    cells = log.positions * (log.positions + 1) // 2
    return Cells.of(pair, cell.reshape(-1), log.clicks.reshape(-1), pairs=len(pairs), cells=cells)


def main() -> None:
    name, items, clicks, queries = yandex()
    log = read_log(items, clicks, queries)
    collapsed = ubm_cells(log)
    single = single_rows(collapsed)
    print(f"{name}_lists {len(log)} lists")
    print(f"{name}_rows_without_click {len(single.count)} rows")
    print(f"{name}_rows_without_click_collapsed {len(collapsed.count)} rows")

    pairs, pair = Pairs.met_in(log.items, log.queries, log.sizes)
    few = pair.reshape(log.clicks.shape)[:LOOPED].tolist(), clicks[:LOOPED].tolist()
    theirs = plain_loop(*few, len(pairs), 3)
    ours = UBM(iterations=3).fit(items[:LOOPED], clicks[:LOOPED], queries[:LOOPED])
    reached = (ours.observations > 0)[np.tri(log.positions, dtype=bool)]
    same = np.array(theirs)[reached] - ours.examination[np.tri(log.positions, dtype=bool)][reached]
    print(f"ubm_plain_loop_largest_difference {np.abs(same).max():.1e} probability")

    looped = LOOPED * 3 / fastest(lambda: plain_loop(*few, len(pairs), 3), repeats=5)
    prepared = {
        "as_it_stands": fastest(lambda: maximise(single, iterations=ITERATIONS), repeats=7),
        "collapsed": fastest(lambda: maximise(collapsed, iterations=ITERATIONS), repeats=30),
    }
    print(f"ubm_plain_loop {looped:.0f} list-iterations/s")
    for how, seconds in prepared.items():
        speed = len(log) * ITERATIONS / seconds
        print(f"ubm_{how}_prepared {speed:.0f} list-iterations/s")
        print(f"ubm_{how}_prepared_times_plain_loop {speed / looped:.0f} ratio")
    for kind in (UBM, PBM):
        seconds = fastest(lambda kind=kind: kind(iterations=ITERATIONS).fit(items, clicks, queries), repeats=10)
        speed = len(log) * ITERATIONS / seconds
        print(f"{kind.__name__.lower()}_whole_fit {seconds * 1e3:.1f} ms")
        print(f"{kind.__name__.lower()}_whole_fit_speed {speed:.0f} list-iterations/s")
        print(f"{kind.__name__.lower()}_whole_fit_times_plain_loop {speed / looped:.0f} ratio")


if __name__ == "__main__":
    with threadpool_limits(1, user_api="blas"):
        sys.exit(main())
