"""The rows of day one: old rankers from bad to good and from sure to random, tables, clicks, features and users."""

from __future__ import annotations

from dataclasses import replace

from learner.experiments.day_one import DayOne


def cases(*, full: bool = True) -> dict[str, tuple[str, DayOne]]:
    """Return the rows of the experiment: a name, the block it stands in, and the world."""
    base = DayOne()
    rows: dict[str, tuple[str, DayOne]] = {}

    def add(block: str, name: str, case: DayOne) -> None:
        rows[f"{block}: {name}"] = block, case

    rankers = {"opposed (cos −0.5)": -0.5, "orthogonal": 0.0, "half right (cos 0.5)": 0.5, "good (cos 0.9)": 0.9}
    for table in ("Taobao-shaped", "0.95/k"):
        for name, likeness in rankers.items():
            add(f"w {table}, γ about 0.06", name, replace(base, table=table, likeness=likeness))
    add("w Taobao-shaped, γ about 0.3", "orthogonal", replace(base, mean=0.3))
    if not full:
        return rows
    for noise in (0.1, 0.3, 1.0):
        for table in ("Taobao-shaped", "0.95/k"):
            add("a random old ranker", f"w {table}, noise {noise:g}", replace(base, table=table, noise=noise))
    for size in (3, 6, 9, 12):
        add("lists of K", f"K = {size}", replace(base, table="0.95/k", size=size))
    for lists in (1000, 5000, 20_000):
        add("a log of n lists", f"n = {lists:,}", replace(base, lists=lists))
    add("features", "without a constant", replace(base, constant=False))
    for users in ("pbm", "cm", "dcm"):
        add("clicks by other models", f"{users.upper()} users", replace(base, users=users))
    for table in ("Taobao-shaped", "0.95/k"):
        add("a drifting taste", f"w {table}", replace(base, table=table, drifting=True))
    for personal in (0.35, 0.7, 1.0):
        for table in ("Taobao-shaped", "0.95/k"):
            name = f"w {table}, the user's part {personal:g} of the item's"
            add("features that tell of the user too", name, replace(base, table=table, personal=personal))
    return rows
