"""The examination table that a fitted click model implies: how any of them looks from UBM-LinUCB's side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from learner.click_models.cm import CM
from learner.click_models.em_model import EmModel
from learner.click_models.log import Column, Lists, read_log
from learner.click_models.model import ClickModel
from learner.click_models.reading import ReadingModel
from learner.click_models.unobserved import filled


def examination_of(
    model: ClickModel, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the table that a model stands for, and how many rows of the log are behind each cell.

    UBM and PBM carry it: K×K, or one chance per position. CM reads on until the first click: w[k, 0] = 1, and 0 after a
    click. The others are no UBM: whether a user still reads depends on the items passed since the click, so a cell has
    the mean of P(still reads | the clicks above) over the log's rows in it; cells without any take their row's mean.

    >>> from learner.click_models import CM
    >>> log = [[1, 2], [2, 1]], [[1, 0], [0, 1]]
    >>> examination_of(CM().fit(*log), *log)[0]
    array([[1., 0.],
           [1., 0.]])
    """
    if isinstance(model, EmModel):
        return model.examination, model.observations
    log = read_log(items, clicks, queries, sizes=sizes)
    shown = log.shown
    cell = (np.arange(log.positions) * log.positions + previous_click(log.clicks))[shown]
    cells = log.positions**2
    rows = np.bincount(cell, minlength=cells)
    possible = np.tri(log.positions, dtype=np.bool_)
    observations = np.where(possible, rows.reshape(possible.shape), 0)
    if isinstance(model, CM):
        table = np.zeros(possible.shape)
        table[:, 0] = 1.0
        return table, observations
    if not isinstance(model, ReadingModel):
        raise TypeError(f"{type(model).__name__} says nothing of what is examined")
    codes = model.codes(log)
    reads = model.reading(codes, log.clicks)[shown]
    means = np.bincount(cell, reads, cells) / np.maximum(rows, 1)
    table, _ = filled(np.where(possible, means.reshape(possible.shape), 0.0), observations, possible)
    return table, observations
