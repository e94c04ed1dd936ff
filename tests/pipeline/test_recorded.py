"""A deployment that an earlier version left behind is resumed, and its archive replayed, to the same bits."""

import json
import re

import numpy as np
import pytest
from joined import commits
from recorded import (
    BUCKETS,
    FOLDER,
    REGISTRY,
    hashes,
    learn,
    processed,
    progress,
    recorded_broker,
    settings_of,
    unpack,
)

from streams.logs import Archive
from streams.logs.job import open_source, restore
from streams.replay import deployed, plan_of
from streams.replay.job import replay
from streams.settings import Settings

LEARNED = json.loads((FOLDER / "learned.json").read_text())


def test_jobs_resume_from_recorded_commits(programs, tmp_path):
    broker = recorded_broker(unpack("broker", tmp_path))
    try:
        broker.start()
        settings = settings_of(broker)
        assert hashes(settings) == LEARNED["half"]["sha256"]
        resumed, next_offsets = commits(settings), progress(settings)
        before = [commit.ledger.impressions for commit in resumed]
        assert all(before)
        committed = [processed(settings)]

        def learned():
            committed.append(processed(settings))
            return hashes(settings) == LEARNED["end"]["sha256"]

        restore(settings, Archive.open(unpack("archive", tmp_path)))  # writes what the broker does not have yet
        learn(settings, tmp_path / "jobs", until=learned)
        logs = np.array(committed)
        assert (np.diff(logs, axis=0) >= 0).all(), "the join went back behind a commit"
        join, learner = (log.read_text() for log in sorted((tmp_path / "jobs").glob("*.log")))
        reread = [sum(part.processed - part.restart.offset for part in commit.logs) for commit in resumed]
        lines = re.findall(r"partition (\d+) goes on from its commit, after rereading (\d+) events", join)
        assert sorted((int(number), int(events)) for number, events in lines) == list(enumerate(reread))
        restored = re.findall(r"samples partition (\d+) is restored to offset (\d+)", learner)
        assert {int(number) for number, _ in restored} == set(next_offsets)
        assert all(int(offset) >= next_offsets[int(number)] for number, offset in restored)
        ledgers = [commit.ledger for commit in commits(settings)]
        assert all(
            ledger.balanced and ledger.impressions > count for ledger, count in zip(ledgers, before, strict=True)
        )
    finally:
        broker.kill()


@pytest.mark.parametrize("samples", [False, True], ids=["events", "samples"])
def test_a_recorded_archive_is_replayed(tmp_path, samples):
    settings = Settings(buckets=BUCKETS, wait_s=60.0, lateness_s=60.0, registry=REGISTRY)
    source = open_source(str(unpack("archive", tmp_path)), settings)
    settings, _ = deployed(source, settings)
    assert settings.buckets["ubm"].epoch == 2, "rolled out"
    plan, _ = plan_of(source, settings, samples=samples)
    assert {name: model.sha256() for name, model in sorted(replay(plan).models.items())} == LEARNED["end"]["sha256"]
