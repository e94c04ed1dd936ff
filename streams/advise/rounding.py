"""What rounding to the exact grid takes from contexts, by the scale that they are divided by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GRID = 2.0**16  # as in learner.exact: z = rint(2¹⁶ w x / context_scale)
ROOM = 1.25  # of an advised scale over the largest feature seen
WORTH = 0.001  # a loss of a thousandth of the length of a context is worth a new epoch


@dataclass(frozen=True, slots=True)
class RoundingAdvice:
    """What a bucket's contexts lose."""

    context_scale: float
    largest: float
    relative: float  # the length of the error over that of the contexts
    advised_scale: float  # the smallest with some room above the largest feature, in three digits
    worth: bool  # whether another scale would give back something that matters


def advise_scale(contexts: NDArray[np.float32], weights: NDArray[np.float64], context_scale: float) -> RoundingAdvice:
    """Judge a scale on rows, each with the weight that it is learned with.

    >>> advise_scale(np.full((5, 2), 0.01, np.float32), np.ones(5), 1000.0).advised_scale
    0.0125
    """
    scaled = weights[:, None] * (contexts / np.float64(context_scale))
    largest, length = float(np.abs(contexts).max(initial=0.0)), float(np.square(scaled).sum())
    error = float(np.square(np.rint(GRID * scaled) / GRID - scaled).sum())
    relative = float(np.sqrt(error / length)) if length else 0.0
    advised = float(f"{ROOM * largest:.3g}") if largest else context_scale
    return RoundingAdvice(
        context_scale, largest, relative, advised, worth=relative > WORTH and advised < context_scale / 2
    )
