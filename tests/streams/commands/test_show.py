"""glimpse show on a directory: one bucket at length, all in lines, and what it says when there is nothing."""

import json

import numpy as np
import pytest
from sample_batches import make_batch
from typer.testing import CliRunner

from schemas.codec import encode
from streams.commands.main import cli
from streams.parameters import DirectoryParameters, SnapshotCorrupt, SnapshotMissing, take_snapshot
from streams.settings import Bucket

TABLE = np.tril(np.tile([0.25, 0.5, 0.75, 1.0], (4, 1)))
UBM = Bucket("ubm", "ubm-linucb", dim=3, positions=4, examination=TABLE, alpha=0.5)
TOML = """
[buckets.ubm]
algorithm = "ubm-linucb"
dim = 3
positions = 4
alpha = 0.5
ridge = {ridge}
examination = "table.json"
[buckets.later]
dim = 3
positions = 4
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path, ridge=UBM.model().settings()["ridge"])
    (tmp_path / "table.json").write_text(json.dumps({"examination": TABLE.tolist()}))
    return tmp_path


def write_settings(folder, ridge):
    (folder / "glimpse.toml").write_text(TOML.format(ridge=ridge))


def publish(folder):
    model = UBM.model()
    model.learn(make_batch("ubm", 20, seed=1)[1])
    snapshot = take_snapshot(model, UBM, samples_offset=42, topic_id="t", partition=1, published_at_ms=1_000)
    DirectoryParameters(folder).put(snapshot, encode(snapshot))
    return snapshot


def show(*words):
    return CliRunner().invoke(cli, ["show", *words])


def test_a_bucket_is_shown_at_length(folder):
    snapshot = publish(folder / "models")
    done = show("ubm", "--source", "models")
    assert done.exit_code == 0, done.output
    said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if not line.startswith(" "))
    assert said["from"] == "models/ubm.snapshot"
    assert said["algorithm"] == "ubm-linucb, 4 positions, 3 features"
    assert said["version"].startswith("1.42 ")
    assert said["lists"] == str(snapshot.rounds)
    assert said["θ"].split() == [f"{number:.4g}" for number in snapshot.theta_array]
    assert said["state"] == f"sha256 {snapshot.sha256}"
    assert said["table"] == f"sha256 {snapshot.examination_sha256}"
    rows = [[float(cell) for cell in line.split()] for line in done.stdout.splitlines() if line.startswith(" ")]
    np.testing.assert_allclose(rows, TABLE, atol=5e-4)
    assert "differs" not in said


def test_settings_that_are_not_those_of_the_snapshot_are_named(folder):
    publish(folder / "models")
    write_settings(folder, ridge=99.0)
    done = show("ubm", "--source", "models")
    assert "differs   in the settings: ridge 99.0 (snapshot: " in done.stdout
    (folder / "table.json").write_text(json.dumps({"examination": (TABLE / 2).tolist()}))
    done = show("ubm", "--source", "models")
    assert "not the table in the settings" in done.stdout


def test_all_buckets_are_lines_and_those_without_a_model_are_said(folder):
    snapshot = publish(folder / "loop" / "snapshots")  # as the embedded runner keeps them
    done = show("--source", "loop")
    assert done.exit_code == 0
    assert done.stdout.split("\t")[:4] == ["ubm", "ubm-linucb", "1.42", f"{snapshot.rounds} lists"]
    assert "later: no model under" in done.stderr
    [row] = [json.loads(line) for line in show("--json", "--source", "loop").stdout.splitlines()]
    assert row["theta"] == snapshot.theta_array.tolist()
    assert row["table"] == TABLE.tolist()


def test_a_missing_and_a_damaged_model_are_refused(folder):
    assert isinstance(show("ubm", "--source", "models").exception, SnapshotMissing)
    publish(folder / "models")
    file = folder / "models" / "ubm.snapshot"
    data = bytearray(file.read_bytes())
    data[-120] ^= 1  # in the sums
    file.write_bytes(bytes(data))
    assert isinstance(show("ubm", "--source", "models").exception, SnapshotCorrupt)
