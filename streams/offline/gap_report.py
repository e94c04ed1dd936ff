"""The map of where weighting by examination pays, as tables and a picture."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from learner.experiments.gap import LEVELS, NAMES, POWERS, Gap, Lifts, place
from learner.experiments.shop import MEAN, shop_table
from learner.experiments.summary import Mean
from streams.charts import html_table, markdown_table, page, picture
from streams.offline.experiment_report import percent, write_texts

CELL, LEFT, TOP = 92, 120, 60
MEASURED: Mapping[str, tuple[float, float]] = {
    # how steeply w falls and the mean γ once its largest cell is 1, as `glimpse fit` prints them
    "Taobao": (place(shop_table(), np.tri(12, dtype=np.int64)), MEAN * 0.55),
    "Yandex": (0.94, 0.35),
    "CLARA2 (Naver)": (1.89, 0.15),
}


MeanLifts = Mapping[Gap, Mapping[tuple[str, str, int], Mean]]
"""Of every world: by algorithm, kind of α and number of rounds."""


def means(found: Mapping[Gap, Sequence[Lifts]]) -> MeanLifts:
    """Return the mean lift and its interval of every world, algorithm, kind of α and number of rounds."""
    return {
        world: {key: Mean.of([each[key] for each in played]) for key in played[0]} for world, played in found.items()
    }


def write_gap(out: Path, found: Mapping[Gap, Sequence[Lifts]], *, seeds: int, seconds: float) -> None:
    """Write report.html, gap.svg, table.md, results.json and map.json into the folder ``out``."""
    summed = means(found)
    rounds = next(iter(found)).rounds
    note = (
        f"Lift of UBM-LinUCB's CTR_sum over C²UCB's, both learning from their own lists; {seeds} seeds, ± is the "
        f"half-width of the 95% interval (Student's t). Took {seconds:.0f} s."
    )
    tables = []
    for changing in (True, False):
        for kind in ("tuned", "theorem"):
            for at in (rounds // 5, rounds):
                title = titled(changing, kind, at)
                tables.append((title, *grid(summed, changing=changing, kind=kind, at=at)))
    pictures = [
        (titled(changing, "tuned", rounds), svg(summed, changing=changing, kind="tuned", at=rounds))
        for changing in (True, False)
    ]
    tables.append(("The others over C²UCB, α tuned, candidates that change", *others(summed, rounds)))
    tables.append(("When the truth is not what is believed (w about 0.95/k, γ about 0.1)", *odd(summed, rounds)))
    told = [note, *(f"**{title}**\n\n{markdown_table(head, cells)}" for title, head, cells in tables)]
    plain = [
        {
            "power": world.power,
            "level": world.level,
            "changing": world.changing,
            "world": world.name,
            "algorithm": name,
            "alpha": kind,
            "rounds": at,
            "lift": mean.value,
            "half_95": mean.half,
        }
        for world, row in summed.items()
        for (name, kind, at), mean in row.items()
    ]
    parts = [f"<h1>Where weights pay</h1><p>{html.escape(note)}</p>"]
    parts += [f"<h2>{html.escape(title)}</h2>{drawn}" for title, drawn in pictures]
    parts += [f"<h2>{html.escape(title)}</h2>{html_table(head, cells)}" for title, head, cells in tables]
    write_texts(
        out,
        {
            "table.md": "\n\n".join(told) + "\n",
            "results.json": json.dumps(plain, indent=1) + "\n",
            "map.json": as_map(summed, rounds),
            "report.html": page("Gap", "\n".join(parts)),
            "gap.svg": pictures[0][1],
            "gap-fixed.svg": pictures[1][1],
        },
    )


def as_map(summed: MeanLifts, at: int) -> str:
    """Return the map of tuned α as JSON, a cell per line: what `glimpse fit` looks a table's place up in."""
    lines = []
    for power, level in product(POWERS, LEVELS):
        cell: dict[str, object] = {"power": power, "level": level, "rounds": at}
        for name, changing in (("changing", True), ("fixed", False)):
            world = next(w for w in summed if is_cell(w, power, level, changing))
            mean = summed[world]["ubm-linucb", "tuned", at]
            cell[name] = [round(mean.value, 5), None if mean.half is None else round(mean.half, 5)]
        lines.append(json.dumps(cell))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def titled(changing: bool, kind: str, at: int) -> str:
    """Return what a map is of."""
    candidates = "candidates that change" if changing else "always the same candidates"
    return f"{candidates}, {'α tuned' if kind == 'tuned' else 'the theorem’s α'}, {at:,} rounds"


def grid(summed: MeanLifts, *, changing: bool, kind: str, at: int) -> tuple[list[str], list[list[str]]]:
    """Return a map as a table: a row for each steepness, a column for each click level."""
    head = ["w falls like", *(f"γ about {level:g}" for level in LEVELS)]
    cells = []
    for power in POWERS:
        line = [f"0.95/k^{power:g}"]
        for level in LEVELS:
            world = next(w for w in summed if is_cell(w, power, level, changing))
            line.append(percent(summed[world]["ubm-linucb", kind, at]))
        cells.append(line)
    return head, cells


def is_cell(world: Gap, power: float, level: float, changing: bool) -> bool:
    """Return whether a world is that cell of a map."""
    plain = world.users == "ubm" and not world.wrong and not world.drifting
    return plain and (world.power, world.level, world.changing) == (power, level, changing)


def others(summed: MeanLifts, at: int) -> tuple[list[str], list[list[str]]]:
    """Return the lifts of all algorithms, and what an oracle would have."""
    names = [*NAMES[1:], "oracle"]
    cells = []
    for world, row in summed.items():
        if is_cell(world, world.power, world.level, True):
            line = [f"0.95/k^{world.power:g}, γ about {world.level:g}"]
            cells.append(line + [percent(row[name, "tuned", at]) for name in names])
    return ["world", *names], cells


def odd(summed: MeanLifts, at: int) -> tuple[list[str], list[list[str]]]:
    """Return the rows of robustness, and the world as believed before them."""
    names = [*NAMES[1:], "oracle"]
    worlds = [w for w in summed if (w.power, w.level, w.changing) == (1.0, 0.1, True)]
    cells = [[world.name, *(percent(summed[world][name, "tuned", at]) for name in names)] for world in worlds]
    return ["users and tables", *names], cells


def svg(summed: MeanLifts, *, changing: bool, kind: str, at: int) -> str:
    """Return a map as a picture, green where weighting pays and red where it costs, measured tables marked on it."""
    parts = []
    for row, power in enumerate(POWERS):
        y = TOP + row * CELL / 2
        parts.append(f'<text x="{LEFT - 8}" y="{y + CELL / 4 + 4}" text-anchor="end">w = 0.95/k^{power:g}</text>')
        for column, level in enumerate(LEVELS):
            world = next(w for w in summed if is_cell(w, power, level, changing))
            mean = summed[world]["ubm-linucb", kind, at]
            sure = mean.half is not None and abs(mean.value) > mean.half
            strength = min(abs(mean.value) / 0.1, 1.0) * (1.0 if sure else 0.35)
            colour = "26,152,80" if mean.value > 0 else "215,48,39"
            x = LEFT + column * CELL * 1.5
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL * 1.5 - 2}" height="{CELL / 2 - 2}" '
                f'fill="rgba({colour},{strength:.2f})"/>'
                f'<text x="{x + CELL * 0.75}" y="{y + CELL / 4 + 4}" text-anchor="middle">{percent(mean)}</text>'
            )
    for column, level in enumerate(LEVELS):
        x = LEFT + (column + 0.5) * CELL * 1.5
        parts.append(f'<text x="{x}" y="{TOP - 10}" text-anchor="middle">γ about {level:g}</text>')
    for name, (power, level) in MEASURED.items():
        x = LEFT + (float(np.interp(np.log(level), np.log(LEVELS), range(len(LEVELS)))) + 0.5) * CELL * 1.5
        y = TOP + (float(np.interp(power, POWERS, range(len(POWERS)))) + 0.5) * CELL / 2
        parts.append(
            f'<circle cx="{x:.0f}" cy="{y + 12:.0f}" r="3.5"/><text x="{x + 6:.0f}" y="{y + 17:.0f}">{name}</text>'
        )
    width, height = LEFT + len(LEVELS) * CELL * 1.5 + 20, TOP + len(POWERS) * CELL / 2 + 20
    return picture(width, height, parts)
