"""Slow, obvious twins of the click models: dictionaries and one list at a time, as the papers write them."""

from types import SimpleNamespace

import numpy as np
import pytest

STRAY = 1e-6


def last_click(clicks, rank):
    """The 1-based position of the last click above ``rank`` (0-based), or 0."""
    return max((above + 1 for above in range(rank) if clicks[above]), default=0)


def ubm_cell(clicks, rank):
    return rank, last_click(clicks, rank)


def pbm_cell(clicks, rank):
    return rank


def em(items, clicks, queries, cell, iterations):
    """EM one row after the other; returns attractiveness by (query, item) and examination by cell."""
    attract, exam = {}, {}
    for _ in range(iterations):
        attract_sums, exam_sums = {}, {}  # key -> [expected number, rows]
        for shown, clicked, query in zip(items, clicks, queries, strict=True):
            for rank, item in enumerate(shown):
                a = attract.get((query, item), 0.5)
                w = exam.get(cell(clicked, rank), 0.5)
                attracted = 1 if clicked[rank] else a * (1 - w) / (1 - a * w)
                examined = 1 if clicked[rank] else w * (1 - a) / (1 - a * w)
                for sums, key, amount in (
                    (attract_sums, (query, item), attracted),
                    (exam_sums, cell(clicked, rank), examined),
                ):
                    so_far = sums.setdefault(key, [0, 0])
                    so_far[0] += amount
                    so_far[1] += 1
        attract = {key: (1 + amount) / (2 + rows) for key, (amount, rows) in attract_sums.items()}
        exam = {key: (1 + amount) / (2 + rows) for key, (amount, rows) in exam_sums.items()}
    return attract, exam


def count(items, clicks, queries, is_read):
    """(1 + clicks)/(2 + rows) by (query, item), over the rows that ``is_read(clicks, rank)``."""
    sums = {}
    for shown, clicked, query in zip(items, clicks, queries, strict=True):
        for rank, item in enumerate(shown):
            so_far = sums.setdefault((query, item), [0, 0])
            if is_read(clicked, rank):
                so_far[0] += bool(clicked[rank])
                so_far[1] += 1
    return {key: (1 + clicked) / (2 + rows) for key, (clicked, rows) in sums.items()}


def continuation(clicks, rank):
    """(1 + clicks at ``rank`` with another below)/(2 + clicks there), None when there was no click."""
    there = [clicked for clicked in clicks if len(clicked) > rank and clicked[rank]]
    return (1 + sum(any(clicked[rank + 1 :]) for clicked in there)) / (2 + len(there)) if there else None


def dcm_joint(attract, clicks, goes_on):
    """P(these clicks), summed over the places where the user may have left; ``attract`` has one value per click."""
    total = 0.0
    for left_at in [None, *(rank for rank, click in enumerate(clicks) if click)]:
        if left_at is not None and any(clicks[left_at + 1 :]):
            continue
        read = len(clicks) if left_at is None else left_at + 1
        chance = 1.0
        for rank in range(read):
            chance *= attract[rank] if clicks[rank] else 1 - attract[rank]
            if clicks[rank]:
                chance *= 1 - goes_on[rank] if rank == left_at else goes_on[rank]
        total += chance
    return total


def random_log(seed, *, lists, longest, items=6, queries=3):
    """A ragged log without any structure: what twins must agree on."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest + 1, lists)
    return (
        [rng.integers(0, items, size).tolist() for size in sizes],
        [(rng.random(size) < 0.4).astype(int).tolist() for size in sizes],
        rng.integers(0, queries, lists).tolist(),
    )


@pytest.fixture(scope="session")
def twin():
    return SimpleNamespace(
        STRAY=STRAY,
        last_click=last_click,
        ubm_cell=ubm_cell,
        pbm_cell=pbm_cell,
        em=em,
        count=count,
        continuation=continuation,
        dcm_joint=dcm_joint,
        random_log=random_log,
    )
