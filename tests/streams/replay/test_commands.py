"""What `glimpse replay` and `glimpse ledger` say about a source that they cannot use, or could use only in part."""

import shutil

import pytest
from jobs import write_toml
from replay_runs import SETTINGS, live, play, rewrite
from typer.testing import CliRunner

from streams.commands.errors import explained
from streams.commands.main import cli
from streams.logs import Archive
from streams.rank.job import Ranker


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    play(folder, 1)
    return folder


@pytest.fixture
def glimpse(tmp_path):
    """Runs a command with the settings of the run; returns its exit code and all that it said."""
    toml = write_toml(SETTINGS, tmp_path / "glimpse.toml")

    def command(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, [*words, "--config", str(toml)])
        said = result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            said += explained(result.exception) or f"Traceback: {result.exception!r}"
        return result.exit_code, said

    return command


def test_a_replay_prints_hashes_rates_and_the_comparison(run, glimpse, tmp_path):
    code, said = glimpse("replay", str(run), "--live", str(run / "snapshots"), "--out", str(tmp_path / "out"))
    assert code == 0, said
    for name, sha in live(run).items():
        assert sha in said
        assert f"{name}: the same bits as {name}@1." in said
    assert "records/s" in said
    code, said = glimpse("replay", str(tmp_path / "out" / "nowhere"))
    assert code == 1


def test_a_place_without_a_snapshot_is_nothing_to_compare_with(run, glimpse, tmp_path):
    for place in (tmp_path / "nowhere", tmp_path, run):
        code, said = glimpse("replay", str(run), "--live", str(place))
        assert code == 1
        assert f"--live {place} has no snapshot of ubm, cm, pbm" in said
        assert "records/s" not in said, "said before the work"


def test_the_same_command_brings_snapshots_up_to_date(run, glimpse, tmp_path):
    own, out = shutil.copytree(run, tmp_path / "own"), tmp_path / "out"
    for topic in ("impressions", "clicks"):
        rewrite(own, topic, lambda records: records[: len(records) // 2])
    command = ("replay", str(own), "--out", str(out))
    assert glimpse(*command)[0] == 0
    ranker = Ranker.from_directory(out, bucket="ubm", refresh_s=None)
    shutil.rmtree(own)
    shutil.copytree(run, own)
    code, said = glimpse(*command)
    assert code == 0, said
    assert ranker.refresh()
    assert ranker.snapshot.sha256 == live(run)["ubm"]
    code, said = glimpse(*command, "--to", "2023-11-14T22:13:30")
    assert code == 1
    assert "raise --epoch above 1" in said
    assert "records/s" not in said
    assert glimpse(*command, "--to", "2023-11-14T22:13:30", "--epoch", "2")[0] == 0


BAD = {
    "no archive": (lambda folder: shutil.rmtree(folder / "impressions") or shutil.rmtree(folder / "samples"), "has no"),
    "not there": (shutil.rmtree, "is no archive"),
}


@pytest.mark.parametrize("breaking, said", BAD.values(), ids=BAD)
def test_a_bad_source_is_one_line(run, glimpse, tmp_path, breaking, said):
    own = shutil.copytree(run, tmp_path / "own")
    breaking(own)
    code, words = glimpse("replay", str(own))
    assert code == 1
    assert said in words
    assert "Traceback" not in words


def test_damage_is_named_after_what_was_replayed(run, glimpse, tmp_path):
    own = shutil.copytree(run, tmp_path / "own")
    [path] = Archive(own).log("impressions", 0).segments()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    code, said = glimpse("replay", str(own))
    assert code == 1
    assert " records were replayed" in said
    assert "damaged at byte" in said
    assert "the last good offset before it" in said


@pytest.mark.parametrize(
    "options, wanted",
    [
        (["--from", "2030-01-01"], "nothing to replay"),
        (["--to", "clicks:0:999999"], "clicks 0 on"),
        (["--from", "tomorrow"], "'tomorrow' is neither a time"),
        (["--from", "sample:0:1"], "no topic is called 'sample'"),
        (["--bucket", "x"], "no bucket x in the settings"),
        (["--algorithm", "magic"], "must be one of"),
        (["--algorithm", "pbm-ucb", "--bucket", "ubm"], "needs a table of 5 chances"),
        (["--to-snapshot", "ubm"], "names no snapshot"),
    ],
)
def test_a_bad_option_is_one_line(run, glimpse, options, wanted):
    code, said = glimpse("replay", str(run), *options)
    assert code == 1
    assert wanted in said
    assert "Traceback" not in said


def test_the_ledger_exits_1_when_something_is_missing(run, glimpse, tmp_path):
    code, said = glimpse("ledger", str(run))
    assert code == 0, said
    assert "impressions = 900 lists + 0 open" in said
    own = shutil.copytree(run, tmp_path / "own")
    rewrite(own, "samples", lambda records: records[:-1])
    code, said = glimpse("ledger", str(own))
    assert code == 1
    assert "wrong: partition 0: " in said


def test_a_what_if_says_what_is_the_same_what_is_not_and_what_it_would_have_earned(run, glimpse):
    code, said = glimpse("replay", str(run), "--bucket", "ubm", "--alpha", "0.75", "--live", str(run / "snapshots"))
    assert code == 0, said
    [line] = [line for line in said.splitlines() if line.startswith("ubm: A and b are the same")]
    assert "bit by bit, as in ubm@1." in line
    assert "→ 0.75" in line
    assert "θ is the same, ranks are not: widths differ" in line
    assert "the same bits" not in said
    [judged] = [line for line in said.splitlines() if line.startswith("ubm: would have earned")]
    assert "clicks per list by ubm-" in judged
    assert "; ubm@1." in judged
    assert "  assumed: " in said, "these impressions do not say their candidates"
    code, said = glimpse("replay", str(run), "--bucket", "ubm", "--ridge", "50", "--live", str(run / "snapshots"))
    assert "λ " in said
    assert "‖Δθ‖ = " in said
    code, said = glimpse(
        "replay", str(run), "--bucket", "ubm", "--algorithm", "c2ucb", "--live", str(run / "snapshots")
    )
    assert "algorithm ubm-linucb → c2ucb" in said
    assert "A and b are the same" not in said


def test_samples_without_their_beginning_are_learned_only_when_told(run, glimpse, tmp_path):
    own = shutil.copytree(run, tmp_path / "own")
    rewrite(own, "samples", lambda records: records[len(records) // 2 :])
    code, said = glimpse("replay", str(own), "--samples")
    assert code == 1
    assert "--truncated learns from what is left" in said
    code, said = glimpse("replay", str(own), "--samples", "--truncated")
    assert code == 0, said
