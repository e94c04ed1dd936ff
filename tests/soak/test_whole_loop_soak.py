"""Ten minutes of the whole loop at 100 users a second, and the order of the paper's figure in the end."""

import numpy as np
import pytest
from rich.console import Console
from whole_loop import BUCKETS, check_everything_counted, whole_loop

from streams.demo import Crowdedness, scores, table_of, write_curves
from streams.demo.scores import columns

SECONDS = 600.0


@pytest.mark.timeout(SECONDS + 300)
def test_ten_minutes_with_six_buckets(settings_for, redis_url, tmp_path):
    settings = settings_for(buckets=BUCKETS, redis=redis_url, wait_s=20.0, lateness_s=40.0, timestamps="LogAppendTime")
    with whole_loop(settings, tmp_path) as loop:
        users = loop.play(Crowdedness(rate=100, seconds=SECONDS, lists=1.0))
        check_everything_counted(loop, users)
    Console(width=120).print(table_of(scores(users.visits)))
    print(write_curves(tmp_path / "curves.html", users.visits))
    clicks = {name: found[len(found) // 2 :] for name, found in columns(users.visits)[0].items()}
    error = {name: found.std() / np.sqrt(len(found)) for name, found in clicks.items()}
    for name in set(BUCKETS) - {"random"}:
        lift = clicks[name].mean() - clicks["random"].mean()
        assert lift > 5 * np.hypot(error[name], error["random"]), name
    assert clicks["ubm-linucb"].mean() > clicks["pbm-ucb"].mean()  # contexts tell users apart, items alone do not
