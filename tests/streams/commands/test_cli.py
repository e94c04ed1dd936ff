"""The commands as users run them: what they print, and what they say when something is wrong."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from learner import Samples
from schemas.codec import encode
from streams.parameters import DirectoryParameters, take_snapshot
from streams.rank import read_candidates
from streams.rank.requests import CandidateError
from streams.settings import load

COMMANDS = (
    "demo",
    "up",
    "down",
    "topics",
    "join",
    "learn",
    "worker",
    "produce",
    "rank",
    "serve",
    "show",
    "dead-letters",
)
TOML = """
[buckets.main]
algorithm = "c2ucb"
dim = 2
positions = 3
alpha = 0.0
"""


def glimpse(*words: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GLIMPSE_")}
    return subprocess.run(
        [sys.executable, "-m", "streams.cli", *words],
        cwd=folder,
        env=clean | {"PYTHONPATH": str(Path(__file__).parents[3]), "COLUMNS": "200"} | environ,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "glimpse.toml").write_text(TOML)
    return tmp_path


def test_help_is_quick_and_names_every_command(folder):
    before = os.times()
    done = glimpse("--help", folder=folder)
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 5
    assert done.returncode == 0
    assert [name for name in COMMANDS if f" {name} " not in done.stdout] == []


def test_the_version_is_the_installed_one(folder):
    done = glimpse("--version", folder=folder)
    assert (done.returncode, done.stdout) == (0, f"glimpse {metadata.version('glimpse')}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(folder, command):
    done = glimpse(command, "--help", folder=folder)
    assert done.returncode == 0
    assert f"Usage: glimpse {command}" in done.stdout.replace("python -m streams.cli", "glimpse")


WRONG = {
    "a wrong number": ({"GLIMPSE_WAIT_S": "soon"}, "glimpse: GLIMPSE_WAIT_S = 'soon': must be a number\n"),
    "a misspelt variable": (
        {"GLIMPSE_KAFKAS": "a:1"},
        "glimpse: GLIMPSE_KAFKAS = '***': no such variable; did you mean GLIMPSE_KAFKA?\n",
    ),
    "no buckets": (
        {"GLIMPSE_CONFIG": "empty.toml"},
        "glimpse: buckets = {}: describe at least one in glimpse.toml; see examples/glimpse.toml\n",
    ),
    "a lost file": (
        {"GLIMPSE_CONFIG": "lost.toml"},
        "glimpse: glimpse.toml = 'lost.toml': cannot be read: No such file or directory\n",
    ),
}


@pytest.mark.parametrize("environ, said", WRONG.values(), ids=WRONG)
def test_a_wrong_setting_is_one_line_and_an_exit_code(folder, environ, said):
    (folder / "empty.toml").write_text("")
    done = glimpse("worker", folder=folder, **environ)
    assert (done.returncode, done.stderr, done.stdout) == (1, said, "")


def publish(folder):
    bucket = load(folder / "glimpse.toml", environ={}).buckets["main"]
    model = bucket.model()
    model.learn(Samples.from_clicks(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[0.0, 1.0]])))
    snapshot = take_snapshot(model, bucket, samples_offset=1, topic_id="t", partition=0, published_at_ms=1)
    DirectoryParameters(folder / "models").put(snapshot, encode(snapshot))
    return model


@pytest.mark.parametrize(
    "words, said",
    [
        (["rank", "b", "candidates.jsonl", "--source", "ftp://x"], "snapshots come from kafka, redis or a directory"),
        (["demo", "--lists", "600", "--out", "candidates.jsonl"], "candidates.jsonl"),
        (["fit", "candidates.jsonl", "--out", "nowhere/table.json"], ""),
    ],
    ids=["address", "file for a folder", "no such folder"],
)
def test_a_usual_mistake_is_one_line(folder, words, said):
    (folder / "candidates.jsonl").write_text('{"item": 1, "context": [0.5]}\n')
    done = glimpse(*words, folder=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("glimpse: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_rank_prints_items_best_first(folder):
    model = publish(folder)
    rows = [{"item": 7, "context": [1.0, 0.0]}, {"item": 9, "context": [0.0, 1.0]}, {"item": 8, "context": [0.5, 0.5]}]
    (folder / "candidates.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = glimpse("rank", "main", "candidates.jsonl", "--size", "2", "--source", "models", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["9", "8"]
    scores = model.predict(np.array([[0.0, 1.0], [0.5, 0.5]]))
    assert [line.split()[1] for line in done.stdout.splitlines()] == [f"{score:.6f}" for score in scores]


def test_rank_without_a_model_or_with_a_wrong_context_is_one_line(folder):
    (folder / "candidates.jsonl").write_text('{"item": 7, "context": [1.0, 0.0, 0.0]}\n')
    done = glimpse("rank", "main", "candidates.jsonl", "--source", "models", folder=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("glimpse: no model under")
    assert done.stderr.count("\n") == 1
    publish(folder)
    done = glimpse("rank", "main", "candidates.jsonl", "--source", "models", folder=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("glimpse: candidates.jsonl: ")
    assert done.stderr.count("\n") == 1


LINES = {
    "no JSON": (["{"], "line 1 is not JSON"),
    "no item": (['{"context": [1]}'], "line 1 must be"),
    "a fraction": (['{"item": 1.5}'], "line 1 must be"),
    "too large": (['{"item": 9223372036854775808}'], "line 1 must be"),
    "lengths that differ": (
        ['{"item": 1, "context": [1]}', "", '{"item": 2, "context": [1, 2]}'],
        "line 3 has 2 numbers",
    ),
    "words": (['{"item": 1, "context": ["a"]}'], "line 1 must be"),
    "nothing": ([], "no candidates"),
}


@pytest.mark.parametrize("lines, said", LINES.values(), ids=LINES)
def test_a_bad_candidate_is_named(lines, said):
    with pytest.raises(CandidateError, match=said):
        read_candidates(lines)
