"""Ten minutes of the whole loop at 100 users a second: every bucket learns, in the order of the paper's figure."""

import numpy as np
import pytest
from rich.console import Console
from whole_loop import BUCKETS, check_everything_counted, whole_loop

from streams.demo import Crowdedness, scores, table_of, write_curves
from streams.demo.report import columns

SECONDS = 600.0
CONTEXTUAL = set(BUCKETS) - {"random", "pbm-ucb"}


@pytest.mark.timeout(SECONDS + 300)
def test_ten_minutes_with_six_buckets(settings_for, redis_url, tmp_path):
    settings = settings_for(buckets=BUCKETS, redis=redis_url, wait_s=20.0, lateness_s=40.0, timestamps="LogAppendTime")
    with whole_loop(settings, tmp_path) as loop:
        users = loop.play(Crowdedness(rate=100, seconds=SECONDS, lists=1.0))
        check_everything_counted(loop, users)
    found = scores(users.visits)
    Console(width=120).print(table_of(found))
    print(write_curves(tmp_path / "curves.html", users.visits))
    clicks = {name: later[len(later) // 2 :] for name, (later, _) in columns(users.visits).items()}
    error = {name: later.std() / np.sqrt(len(later)) for name, later in clicks.items()}

    def leads(name: str, other: str) -> bool:
        """Whether more is clicked in one bucket than in another, far beyond chance, in the later half of the time."""
        return bool(clicks[name].mean() - clicks[other].mean() > 5 * np.hypot(error[name], error[other]))

    assert [name for name in BUCKETS if name != "random" and not leads(name, "random")] == []
    assert [name for name in CONTEXTUAL if not leads(name, "pbm-ucb")] == []
    regret = {score.bucket: score.regret for score in found}
    assert regret["ubm-linucb"] < min(regret[name] for name in ("random", "pbm-ucb", "cm-linucb", "c2ucb"))
