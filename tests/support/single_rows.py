"""Rows without a click, each for itself: what EM would iterate over if equal rows were not counted together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from learner.click_models.em import Cells


def single_rows(collapsed: Cells) -> Cells:
    """Return the same rows, each with a count of one."""
    count = collapsed.count.astype(np.int64)
    pair, cell = np.repeat(collapsed.pair, count), np.repeat(collapsed.cell, count)
    return replace(collapsed, pair=pair, cell=cell, count=np.ones(len(pair)))
