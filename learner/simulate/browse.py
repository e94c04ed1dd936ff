"""The browsing that UBM, PBM, CM and DCM have in common, for all lists at once: clicks drawn, and clicks expected.

A reader of position k examines it with chance w[k, k′] and clicks what was examined with chance γ. UBM is the table as
it stands, PBM one that does not look at k′, CM one that is 0 behind a click. In DCM and SDBN a click may also end the
reading, which no later position can undo: ``continuation``, by position (K,) or by the row's item (n, K).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Answer(NamedTuple):
    """What users did with lists (n, K): 1 where they clicked, and the chance they did so after the clicks above."""

    clicks: Floats
    chance: Floats


def answer(
    attraction: Floats, examination: Floats, random: np.random.Generator, continuation: Floats | None = None
) -> Answer:
    """Return the clicks on lists whose items have these γ (n, K); a chance w·γ above 1 is a sure click."""
    lists, depth = attraction.shape
    draws = random.random(attraction.shape)
    stays = None if continuation is None else random.random(attraction.shape) < continuation[..., :depth]
    clicks, chance = np.zeros(attraction.shape), np.zeros(attraction.shape)
    last = np.zeros(lists, dtype=np.int64)
    reading = np.ones(lists, dtype=np.bool_)
    for k in range(depth):  # each position depends on the click before it, in all lists at once
        chance[:, k] = examination[k].take(last) * attraction[:, k]
        if stays is not None:
            chance[:, k] *= reading
        clicked = draws[:, k] < chance[:, k]
        clicks[:, k] = clicked
        last[clicked] = k + 1
        if stays is not None:
            reading &= ~clicked | stays[:, k]
    return Answer(clicks, chance)


def expected_clicks(attraction: Floats, examination: Floats, continuation: Floats | None = None) -> Floats:
    """Return the chance of a click at each position of lists (n, K), nothing being known of the clicks above.

    >>> expected_clicks(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0], [0.4, 0.8]]))
    array([[0.5, 0.3]])
    """
    lists, depth = attraction.shape
    click = np.empty(attraction.shape)
    readers = np.zeros((lists, depth + 1))  # P(the last click so far is at k′, and the user reads on)
    readers[:, 0] = 1.0
    for k in range(depth):
        here = readers[:, : k + 1] * (attraction[:, k, None] * examination[k, : k + 1])
        readers[:, : k + 1] -= here
        click[:, k] = here.sum(axis=1)
        readers[:, k + 1] = click[:, k] if continuation is None else click[:, k] * continuation[..., k]
    return click
