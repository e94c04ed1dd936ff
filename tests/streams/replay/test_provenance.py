"""Every snapshot of a run is rebuilt from the samples log; what the log cannot give is named."""

import shutil
from dataclasses import replace

import pytest
from replay_runs import SETTINGS, play, rewrite

from schemas.codec import decode, encode
from schemas.records import SampleBatch
from streams.logs import Archive, LogBlock, LogRecord, LogWriter, RangeError
from streams.logs.job import open_source
from streams.parameters import ConfigChanged, split_snapshot
from streams.replay import ReplayError
from streams.replay.job import Wanted, rebuild
from streams.replay.job.provenance import NotTheSame

UBM = "ubm"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with all its snapshots on an archived parameters topic, large ones in chunks, as Kafka has them."""
    folder = tmp_path_factory.mktemp("run")
    snapshots = play(folder, 3)
    archive = Archive(folder)
    archive.add_topic("parameters", partitions=1)
    records = [
        LogRecord(0, 0, chunk.bucket.encode(), encode(chunk))
        for one in snapshots
        for chunk in split_snapshot(one, chunk_bytes=900)
    ]
    writer = LogWriter(archive.log("parameters", 0))
    writer.append(LogBlock.of([record._replace(offset=number) for number, record in enumerate(records)]))
    writer.close()
    assert any(len(split_snapshot(one, chunk_bytes=900)) > 1 for one in snapshots)
    return folder, snapshots


@pytest.fixture
def own(run, tmp_path):
    return shutil.copytree(run[0], tmp_path / "own")


def newest(run):
    return max((one for one in run[1] if one.bucket == UBM), key=lambda one: one.version)


def wanted(run) -> Wanted:
    return Wanted(UBM, newest(run).version)


def test_every_snapshot_is_rebuilt_bit_by_bit(run):
    source = open_source(str(run[0]), SETTINGS)
    assert len(run[1]) > 20
    for snapshot in run[1]:
        done = rebuild(source, SETTINGS, Wanted(snapshot.bucket, snapshot.version))
        assert done.published == snapshot
        assert done.model.sha256() == snapshot.sha256


def test_one_that_compaction_removed_is_rebuilt_without_a_comparison(run):
    source, at = open_source(str(run[0]), SETTINGS), newest(run).version
    done = rebuild(source, SETTINGS, Wanted(UBM, (at[0], at[1] - 1)))
    assert done.published is None
    assert 0 < done.model.rounds <= newest(run).rounds


def test_a_changed_sample_is_found(run, own):
    def change(records):
        for number, record in enumerate(records):
            batch = decode(record.value, SampleBatch)
            if batch.bucket == UBM:
                items = bytearray(batch.contexts)
                items[1] ^= 1
                records[number] = record._replace(value=encode(replace(batch, contexts=bytes(items))))
                return records
        raise AssertionError("no record of the bucket")

    rewrite(own, "samples", change, partition=newest(run).samples_partition)
    with pytest.raises(NotTheSame, match=r"differs from what the log gives in \d+ of \d+ numbers of gram_low"):
        rebuild(open_source(str(own), SETTINGS), SETTINGS, wanted(run))


def test_what_retention_cut_is_named(run, own):
    rewrite(own, "samples", lambda records: records[5:], partition=newest(run).samples_partition)
    with pytest.raises(NotTheSame, match=r"holds \d+ lists, the log gives \d+ .*offsets 0 to 4 are missing"):
        rebuild(open_source(str(own), SETTINGS), SETTINGS, wanted(run))
    with pytest.raises(RangeError, match="begins at offset 5, so offsets 0 to 4 are missing"):
        rebuild(open_source(str(own), SETTINGS), SETTINGS, Wanted(UBM, (1, 3)))


def test_a_log_that_ends_too_early_is_named(run, own):
    end = Archive(own).log("samples", newest(run).samples_partition).end
    rewrite(own, "samples", lambda records: records[:-2], partition=newest(run).samples_partition)
    with pytest.raises(
        RangeError, match=rf"ends at {end - 2}: offsets {end - 2} to {newest(run).samples_offset - 1} are"
    ):
        rebuild(open_source(str(own), SETTINGS), SETTINGS, wanted(run))


def test_other_settings_are_named(run):
    source = open_source(str(run[0]), SETTINGS)
    other = replace(SETTINGS, buckets={**SETTINGS.buckets, UBM: replace(SETTINGS.buckets[UBM], ridge=7.0)})
    with pytest.raises(ConfigChanged, match=r"ridge 7\.0"):
        rebuild(source, other, wanted(run))
    narrow = replace(SETTINGS, buckets={**SETTINGS.buckets, UBM: replace(SETTINGS.buckets[UBM], alpha=0.1)})
    assert rebuild(source, narrow, wanted(run)).published is not None, "α ranks, it does not learn"


@pytest.mark.parametrize("text", ["ubm", "ubm:3", "ubm:1.x", ":1.2", "ubm:1.2.3"])
def test_a_name_that_is_none_is_refused(text):
    with pytest.raises(ReplayError, match=r"wanted BUCKET:EPOCH\.OFFSET"):
        Wanted.parse(text)


def test_an_unknown_bucket_is_refused(run):
    with pytest.raises(ReplayError, match="no bucket 'x' in the settings; there: ubm, cm, pbm"):
        rebuild(open_source(str(run[0]), SETTINGS), SETTINGS, Wanted("x", (1, 1)))
