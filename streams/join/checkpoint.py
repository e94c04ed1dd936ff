"""What a join has to write at one instant, and where a restart goes on from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import DeadLetter, Rules, SampleBatch
from streams.join.commit import Commit
from streams.logs import LogRecord

Ints = NDArray[np.int64]


class Checkpoint(NamedTuple):
    """What one consistent checkpoint must write, all of it or nothing, and where a restart goes on from it."""

    samples: list[SampleBatch]
    dead_letters: list[DeadLetter]
    late_clicks: list[LogRecord]
    commit: Commit
    click_delays_ms: Ints  # from shown to clicked, of the first clicks on a position since the last checkpoint
    early_clicks: int  # read before their list, which has come since the last checkpoint
    orphan_clicks: int  # of the late ones, those whose list was never seen
    rules: list[Rules]  # of eras that this commit is the first to name: for ``parameters``, with the topic's id put in
