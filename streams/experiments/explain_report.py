"""Reports of two experiments that explain the paper's: where weighting pays, as a map, and which intervals to trust."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np

from learner.browsing import steepness
from learner.experiments.coverage import DRAWS, LISTS, SLOW, SPARSE, Coverage, Measured
from learner.experiments.gap import LEVELS, NAMES, POWERS, WORLDS, Gap, Lifts
from learner.experiments.shop import MEAN, shop_table
from learner.experiments.summary import Mean
from streams.charts import Cell, grid
from streams.experiments.report import Grid, Report

WIDE, TALL, LEFT = 138, 46, 120  # pixels: a cell, and the names of the rows
UBM = "ubm-linucb"
MEASURED: Mapping[str, tuple[float, float]] = {
    # how steeply w falls and the mean γ once its largest cell is 1, as `glimpse fit` prints them
    "Taobao": (steepness(shop_table(), np.tri(12, dtype=np.int64)), MEAN * 0.55),
    "Yandex": (0.94, 0.35),
    "CLARA2 (Naver)": (1.89, 0.15),
}

MeanLifts = Mapping[tuple[str, str, int], Mean]
"""Of a world: by algorithm, kind of α and number of rounds."""

Cells = Mapping[tuple[float, float], MeanLifts]
"""The worlds of a map by steepness and click level."""


def write_gap(out: Path, played: Mapping[Gap, Sequence[Lifts]], *, seeds: int, seconds: float) -> None:
    """Write report.html, gap.svg, gap-fixed.svg, table.md, results.json and map.json into the folder ``out``."""
    summed = {
        world: {key: Mean.of([lifts[key] for lifts in by_seed]) for key in by_seed[0]}
        for world, by_seed in played.items()
    }
    rounds = next(iter(played)).rounds
    report = Report("Where weights pay")
    report.text(
        f"Lift of UBM-LinUCB's CTR_sum over C²UCB's, both learning from their own lists; {seeds} seeds, ± is the "
        f"half-width of the 95% interval (Student's t). Took {seconds:.0f} s."
    )
    titles = {"gap": "candidates that change", "gap-fixed": "always the same candidates"}
    cells: Mapping[str, Cells] = {
        name: {at: summed[Gap(*at, name == "gap", rounds)] for at in product(POWERS, LEVELS)} for name in titles
    }
    for name, title in titles.items():
        lifts = {key: lift[UBM, "tuned", rounds] for key, lift in cells[name].items()}
        report.figures((name, f"{title}, α tuned, {rounds:,} rounds", lift_map(lifts)))
    for name, kind, at in product(titles, ("tuned", "theorem"), (rounds // 5, rounds)):
        alpha = "α tuned" if kind == "tuned" else "the theorem’s α"
        lines = [
            [f"0.95/k^{power:g}", *(cells[name][power, level][UBM, kind, at].percent for level in LEVELS)]
            for power in POWERS
        ]
        head = ["w falls like", *(f"γ about {level:g}" for level in LEVELS)]
        report.table((head, lines), f"{titles[name]}, {alpha}, {at:,} rounds")
    every = {f"0.95/k^{power:g}, γ about {level:g}": lift for (power, level), lift in cells["gap"].items()}
    report.table(others("world", every, rounds), "The others over C²UCB, α tuned, candidates that change")
    odd = {WORLDS[w.odd]: lift for w, lift in summed.items() if (w.power, w.level, w.changing) == (1.0, 0.1, True)}
    title = "When the truth is not what is believed (w about 0.95/k, γ about 0.1)"
    report.table(others("users and tables", odd, rounds), title)
    plain = [
        {"power": world.power, "level": world.level, "changing": world.changing, "world": WORLDS[world.odd]}
        | {"algorithm": name, "alpha": kind, "rounds": at, "lift": mean.value, "half_95": mean.half}
        for world, lift in summed.items()
        for (name, kind, at), mean in lift.items()
    ]
    report.write(out, plain, {"map.json": as_map(cells, rounds)})


def as_map(cells: Mapping[str, Cells], at: int) -> str:
    """Return the map of tuned α as JSON, a cell per line: what `glimpse fit` looks a table's place up in."""
    lines = []
    for power, level in product(POWERS, LEVELS):
        line: dict[str, object] = {"power": power, "level": level, "rounds": at}
        for name, key in (("gap", "changing"), ("gap-fixed", "fixed")):
            mean = cells[name][power, level][UBM, "tuned", at]
            line[key] = [round(mean.value, 5), None if mean.half is None else round(mean.half, 5)]
        lines.append(json.dumps(line))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def others(head: str, worlds: Mapping[str, MeanLifts], at: int) -> Grid:
    """Return the lifts of all algorithms, and what an oracle would have, in each of the named worlds."""
    names = [*NAMES[1:], "oracle"]
    lines = [[title, *(lift[name, "tuned", at].percent for name in names)] for title, lift in worlds.items()]
    return [head, *names], lines


def lift_map(lifts: Mapping[tuple[float, float], Mean]) -> str:
    """Return a map as a picture, green where weighting pays and red where it costs, measured tables marked on it."""
    rows = {
        f"w = 0.95/k^{power:g}": [Cell(lifts[power, level].percent, _colour(lifts[power, level])) for level in LEVELS]
        for power in POWERS
    }
    marks = {
        name: (
            float(np.interp(power, POWERS, range(len(POWERS)))),
            float(np.interp(np.log(level), np.log(LEVELS), range(len(LEVELS)))),
        )
        for name, (power, level) in MEASURED.items()
    }
    return grid(rows, [f"γ about {level:g}" for level in LEVELS], wide=WIDE, tall=TALL, left=LEFT, marks=marks)


def _colour(lift: Mean) -> str:
    strength = min(abs(lift.value) / 0.1, 1.0) * (1.0 if lift.decided else 0.35)
    return f"rgba({'26,152,80' if lift.value > 0 else '215,48,39'},{strength:.2f})"


def write_coverage(out: Path, coverages: Sequence[Coverage], *, replications: int, seconds: float) -> None:
    """Write report.html, table.md and results.json into the folder ``out``."""
    report = Report("Coverage")
    report.text(
        f"{replications} logs of {LISTS} lists each (with {SPARSE} lists per context or fewer one in {SLOW} of them "
        f"for the bootstrap of {DRAWS} and for known chances), UBM users, 95% intervals. In a cell: bias in % ± its "
        f"standard error, how many intervals held the truth, and ⚠ if the estimates warned; if only some of them did, "
        f"their share and how many of the others held the truth. Took {seconds:.0f} s."
    )
    names = list(coverages[0].estimators)
    lines = [[f"{each.lists}", each.reward, *(cell(each.estimators[name]) for name in names)] for each in coverages]
    report.table((["lists per context", "a click is worth", *names], lines))
    report.write(out, [asdict(coverage) for coverage in coverages])


def cell(measured: Measured) -> str:
    """Return an estimator's bias, its coverage, and a mark if it warned that its interval is not to be trusted."""
    text = f"{100 * measured.bias:+.1f} ± {100 * measured.bias_error:.1f}, {measured.covered:.3f}"
    if (share := round(measured.warned, 2)) in (0.0, 1.0):
        return text + (" ⚠" if share else "")
    return f"{text} ⚠ {measured.warned:.0%}, else {measured.trusted:.3f}"
