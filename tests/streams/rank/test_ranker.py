"""The ranker on a directory: newer snapshots taken over, damaged ones refused, staleness said."""

import logging
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sample_batches import all_algorithms, make_batch

from schemas.codec import encode
from streams.logs import SourceAway
from streams.parameters import DirectoryParameters, SnapshotCorrupt, SnapshotMissing, take_snapshot
from streams.rank.job import Ranker

BUCKET = all_algorithms()["ubm"]
CANDIDATES = np.random.default_rng(5).uniform(-0.5, 0.5, (100, 3))


def publish(folder, offset, *, lists=30, published_at_ms=0, bucket=BUCKET):
    """Write a snapshot and return it with the model it was taken from."""
    model = bucket.model()
    model.learn(make_batch(bucket.name, lists, seed=offset)[1])
    snapshot = take_snapshot(
        model, bucket, samples_offset=offset, topic_id="t", partition=0, published_at_ms=published_at_ms
    )
    DirectoryParameters(folder).put(snapshot, encode(snapshot))
    return snapshot, model


def test_it_ranks_as_the_learner_would(tmp_path):
    _, model = publish(tmp_path, 3)
    ranker = Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=None)
    np.testing.assert_array_equal(ranker.rank(CANDIDATES, size=7), model.rank(CANDIDATES, size=7))
    np.testing.assert_array_equal(ranker.predict(CANDIDATES), model.predict(CANDIDATES))
    np.testing.assert_array_equal(ranker.scores(CANDIDATES, explore=0.5), model.scores(CANDIDATES, explore=0.5))
    assert ranker.version == (1, 3)


def test_a_missing_snapshot_says_where_and_what_to_do(tmp_path):
    with pytest.raises(SnapshotMissing, match=r"ubm\.snapshot; start one: glimpse learn"):
        Ranker.from_directory(tmp_path, bucket="ubm")


def test_newer_snapshots_are_taken_over_and_older_ones_never(tmp_path):
    publish(tmp_path, 3)
    with Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=0.01) as ranker:
        _, newer = publish(tmp_path, 9)
        give_up_at = time.monotonic() + 60
        while ranker.version != (1, 9) and time.monotonic() < give_up_at:
            time.sleep(0.01)
        np.testing.assert_array_equal(ranker.rank(CANDIDATES), newer.rank(CANDIDATES))
        publish(tmp_path, 4)  # the directory refuses it
        assert DirectoryParameters(tmp_path).newest("ubm").version == (1, 9)
        assert not ranker.refresh()
        assert ranker.version == (1, 9)


def said_by_rankers(caplog):
    """Return the levels of what rankers logged; clients that earlier tests opened may log at any time."""
    return [record.levelname for record in caplog.records if record.name.startswith("streams.rank")]


def swap(folder, content):
    DirectoryParameters(folder).file("ubm").write_bytes(content)


def test_what_is_damaged_is_refused_and_the_last_good_kept(tmp_path, caplog):
    good, model = publish(tmp_path, 3)
    ranker = Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=None)
    wrong = replace(good, samples_offset=50, sha256="f" * 64)
    for number, content in enumerate([b"", b"garbage", encode(good)[:-5], encode(wrong)], 1):
        swap(tmp_path, content)
        assert not ranker.refresh()
        assert (ranker.version, ranker.refused) == ((1, 3), number)
        np.testing.assert_array_equal(ranker.rank(CANDIDATES), model.rank(CANDIDATES))
    assert said_by_rankers(caplog).count("ERROR") == 1  # said once
    with pytest.raises(SnapshotCorrupt):
        Ranker.from_directory(tmp_path, bucket="ubm")
    newer, _ = publish(tmp_path, 60)  # what is damaged is replaced
    assert ranker.refresh()
    assert ranker.version == newer.version


def test_a_snapshot_of_another_bucket_is_refused(tmp_path):
    publish(tmp_path, 3)
    swap(tmp_path, encode(publish(tmp_path / "other", 9, bucket=all_algorithms()["full"])[0]))
    with pytest.raises(SnapshotCorrupt, match=r"full@1\.9 lies where one of 'ubm'"):
        Ranker.from_directory(tmp_path, bucket="ubm")


def test_age_and_staleness_are_told_once(tmp_path, caplog):
    publish(tmp_path, 3, published_at_ms=1_000_000)
    now = [1_010.0]
    ranker = Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=None, stale_after_s=60, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        ranker.refresh()
        assert (ranker.age_s, ranker.stale, said_by_rankers(caplog)) == (10.0, False, [])
        now[0] += 100
        ranker.refresh()
        ranker.refresh()
        assert (ranker.age_s, ranker.stale) == (110.0, True)
        assert said_by_rankers(caplog) == ["WARNING"]
        assert "ubm@1.3 is 110 s old, more than the 60 s allowed" in caplog.text
        assert 'glimpse_ranker_stale{bucket="ubm"} 1' in ranker.metrics()
    publish(tmp_path, 4, published_at_ms=1_105_000)
    ranker.refresh()
    assert not ranker.stale


def test_a_source_that_is_away_changes_nothing(tmp_path):
    class Away(DirectoryParameters):
        def newest(self, bucket, *, after=None):
            if after is not None:
                raise SourceAway("nobody there")
            return super().newest(bucket)

    publish(tmp_path, 3)
    ranker = Ranker(Away(tmp_path), bucket="ubm", refresh_s=None)
    assert not ranker.refresh()
    assert (ranker.version, ranker.missed) == ((1, 3), 1)


def test_ranking_goes_on_while_snapshots_change(tmp_path):
    models = {offset: publish(tmp_path, offset)[1] for offset in (1, 2)}
    tops = {offset: list(model.rank(CANDIDATES)) for offset, model in models.items()}
    assert tops[1] != tops[2]
    swap(tmp_path, b"")
    publish(tmp_path, 1)
    ranker = Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=None)
    wrong, stop = [], threading.Event()

    def serve():
        while not stop.is_set():
            if list(ranker.rank(CANDIDATES)) not in tops.values():
                wrong.append(1)

    thread = threading.Thread(target=serve)
    thread.start()
    publish(tmp_path, 2)
    ranker.refresh()
    stop.set()
    thread.join()
    assert not wrong
    assert list(ranker.rank(CANDIDATES)) == tops[2]


def test_urls_name_a_source(tmp_path):
    publish(tmp_path, 3)
    for url in (str(tmp_path), f"file://{tmp_path}"):
        assert Ranker.from_url(url, bucket="ubm", refresh_s=None).version == (1, 3)
    with pytest.raises(ValueError, match="kafka, redis or a directory, got 'ftp://x'"):
        Ranker.from_url("ftp://x", bucket="ubm")
