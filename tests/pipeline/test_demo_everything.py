"""`glimpse demo --live`: servers, service, jobs, users and dashboard of one command, all gone after Ctrl-C."""

import os
import re
import signal
import subprocess
from urllib.request import urlopen

from jobs import GLIMPSE, wait_until


def test_everything_runs_until_it_is_stopped(programs, tmp_path):
    words = tmp_path / "words"
    environ = {**os.environ, "BROWSER": "true", "GLIMPSE_KAFKA": "192.0.2.1:9"}  # not what it is told to use
    with words.open("wb") as log:
        demo = subprocess.Popen(
            [GLIMPSE, "demo", "--live", "--rate", "10", "--out", str(tmp_path / "out")],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=tmp_path,
        )
    try:
        wait_until(lambda: "clicks a list: " in words.read_text() or demo.poll() is not None, timeout_s=90)
        assert demo.poll() is None, words.read_text()
        [page] = re.findall(r"dashboard: (http://\S+);", words.read_text())
        with urlopen(page) as answer:
            assert answer.status == 200
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0, words.read_text()
    finally:
        if demo.poll() is None:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)
    folder = tmp_path / "out" / "live"
    assert "ubm-linucb" in words.read_text().rpartition("┏")[2]
    assert {path.name for path in folder.iterdir()} == {"glimpse.toml", "examination.json", "shop.npz", "curves.html"}
