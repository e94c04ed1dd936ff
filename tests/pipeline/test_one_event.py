"""One impression and its click, followed through the real jobs to a ranker with the new θ."""

import os
import re
from pathlib import Path

import numpy as np
from jobs import Jobs, wait_until
from touched import Touched

from streams.client import EventWriter
from streams.ranker import Ranker, SnapshotMissing
from streams.settings import Bucket

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
MOST_FILES = 25


def test_one_impression_and_its_click_meet_the_files_that_the_architecture_names(settings_for, redis_url, tmp_path):
    way, called, beside = named()
    touched = followed(settings_for, redis_url, tmp_path)
    carried = {file for file in touched if not file.startswith(beside)}
    assert sorted(carried - way - called) == [], "in none of the lists of ARCHITECTURE.md"
    assert sorted((way | called) - touched) == [], "in ARCHITECTURE.md, but not touched"
    assert len(way) <= MOST_FILES


def named():
    """The files that ARCHITECTURE.md names: on the way, called on the way, and beside it."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    [section] = re.findall(r"^## One event, followed through\n(.*?)^## ", text, flags=re.MULTILINE | re.DOTALL)
    way, called, beside = (re.findall(r"`(\w+/[\w/]+(?:\.py|/))`", part) for part in section.split("\n### ")[1:])
    return set(way), set(called), tuple(beside)  # a folder may be named beside the way


def followed(settings_for, redis_url, folder):
    """The files that are touched from the moment an impression is written until a ranker ranks with what it taught."""
    table = np.tril(np.full((12, 12), 0.5))
    bucket = Bucket("main", "ubm-linucb", 10, 12, table)
    client = "kafka-python"  # whose files the lists name
    settings = settings_for(buckets={"main": bucket}, wait_s=1.0, partitions=1, redis=redis_url, kafka_client=client)
    jobs, mine = Jobs(settings, folder), Touched()
    traced = {
        "TOUCHED_FOLDER": str(folder),
        "PYTHONPATH": os.pathsep.join(map(str, (SUPPORT / "traced", SUPPORT, ROOT))),
    }
    try:
        jobs.start("join", "--from", "earliest", **traced)
        jobs.start("learn", **traced)
        wait_until(lambda: has_model(settings), timeout_s=60, jobs=jobs)
        mine.start()
        with EventWriter(settings) as events, Ranker.from_redis(settings, bucket="main", refresh_s=0.2) as ranker:
            visit(events, ranker, jobs, "first")  # what is made once, at the first event, is not on the way
            asked(folder, "ask-1")
            mine.take()
            visit(events, ranker, jobs, "second")
            return set(mine.take()) | asked(folder, "ask-2")
    finally:
        mine.stop()
        jobs.close()


def visit(events, ranker, jobs, session):
    """Show a list, click, and wait until the ranker has learned from it."""
    rounds, contexts = ranker.snapshot.rounds, np.full((12, 10), 0.1)
    rows = ranker.rank(contexts, size=12)
    shown = events.impression(
        np.arange(12), contexts[rows], session_id=session, bucket="main", user_id="u", ranked_by=ranker.version
    )
    events.click(shown, 2, session_id=session)
    wait_until(lambda: ranker.snapshot.rounds > rounds, timeout_s=60, jobs=jobs)
    ranker.rank(contexts, size=12)


def asked(folder, question):
    """What the two jobs answer to a question about the files that they touched since the last one."""
    (folder / question).touch()
    wait_until(lambda: len(list(folder.glob(f"answer-{question}-*"))) == 2, timeout_s=60)
    return {line for answer in folder.glob(f"answer-{question}-*") for line in answer.read_text().split()}


def has_model(settings):
    try:
        Ranker.from_redis(settings, bucket="main", refresh_s=None).close()
    except SnapshotMissing:
        return False
    return True
