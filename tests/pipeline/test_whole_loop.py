"""Serve → Kafka → join → learn → Redis → serve, with simulated users over HTTP; ten minutes of it in make soak."""

import json
from urllib.request import urlopen

from whole_loop import BUCKETS, check_everything_counted, whole_loop

from streams.demo import Crowdedness, write_curves


def test_every_bucket_learns_what_its_users_did_and_serves_it(settings_for, redis_url, tmp_path):
    times = {"wait_s": 2.0, "lateness_s": 10.0, "publish_every_s": 0.5, "timestamps": "LogAppendTime"}
    settings = settings_for(buckets=BUCKETS, redis=redis_url, **times)
    with whole_loop(settings, tmp_path) as loop:
        users = loop.play(Crowdedness(rate=20, seconds=5, think_s=0.5, delay_s=0.5))
        assert {visit.bucket for visit in users.visits} == set(BUCKETS)
        check_everything_counted(loop, users)
        with urlopen(f"{loop.url}/items") as answer:
            served = json.load(answer)["buckets"]
        assert all(one["version"][0] == 1 and one["version"][1] > 0 for one in served.values())
    page = write_curves(tmp_path / "curves.html", users.visits).read_text(encoding="utf-8")
    assert all(f">{name}</text>" in page for name in BUCKETS)
    assert "clicks a list: random" in users.line()
