"""`glimpse evaluate`: a snapshot judged on a log, against what simulated users would really have given it."""

import json
from functools import cache
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from learner import Samples
from learner.simulate import Users, browsing_table
from schemas.codec import encode
from streams.commands.main import cli
from streams.offline.judge import ESTIMATORS
from streams.offline.judge_view import (
    EvaluateError,
    evaluate_policy,
    evaluation_json,
    show_evaluation,
)
from streams.offline.logs import LogError, read_logs
from streams.offline.policy import read_snapshot, replay
from streams.parameters import DirectoryParameters, SnapshotCorrupt, SnapshotMissing, take_snapshot
from streams.settings import Bucket, write_examination

K, ITEMS = 3, 5
TABLE = browsing_table(K)
VECTORS = np.eye(ITEMS)  # one feature per item, so that the model can learn any taste
GAMMA = np.array([0.1, 0.6, 0.3, 0.7, 0.2])
BEST = [3, 1, 2]
USERS = Users(GAMMA, TABLE)


def simulate(lists, seed):
    random = np.random.default_rng(seed)
    shown = np.argsort(random.random((lists, ITEMS)), axis=1)[:, :K]
    return shown, USERS.browse(VECTORS[shown], random)


def write_log(path, *, lists=3000, seed=1, extra=lambda items, row: {"contexts": VECTORS[items].tolist()}):
    shown, clicks = simulate(lists, seed)
    with path.open("w") as file:
        for row, (items, clicked) in enumerate(zip(shown.tolist(), clicks.astype(int).tolist(), strict=True)):
            file.write(json.dumps({"items": items, "clicks": clicked} | extra(items, row)) + "\n")
    return path


def write_snapshot(folder, algorithm="ubm-linucb", name="u"):
    pbm = algorithm == "pbm-ucb"
    table = {"ubm-linucb": TABLE, "pbm-ucb": TABLE[:, 0]}.get(algorithm)
    bucket = Bucket(name, algorithm, dim=0 if pbm else ITEMS, positions=K, examination=table, alpha=0.0)
    model = bucket.model()
    shown, clicks = simulate(4000, seed=9)
    model.learn(Samples.from_clicks(VECTORS[shown], clicks, shown))
    snapshot = take_snapshot(model, bucket, samples_offset=7, topic_id="t", partition=0, published_at_ms=1)
    DirectoryParameters(folder).put(snapshot, encode(snapshot))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    write_examination(folder / "table.json", TABLE)
    return write_log(folder / "log.jsonl"), write_snapshot(folder / "snapshots"), folder / "table.json"


@cache
def truth(metric):
    """What many users give to the best list."""
    clicks = USERS.browse(np.broadcast_to(VECTORS[BEST], (200_000, K, ITEMS)), np.random.default_rng(3))
    return clicks.sum(axis=1).mean() if metric == "ctr_sum" else clicks.any(axis=1).mean()


@pytest.mark.parametrize("algorithm", ["ubm-linucb", "c2ucb", "pbm-ucb"])
def test_snapshots_rank_the_items_of_a_context(files, tmp_path, algorithm):
    log, _, _ = files
    snapshot = read_snapshot(write_snapshot(tmp_path, algorithm))
    found = replay(read_logs(log), snapshot)
    assert found.contexts == 1  # no queries, and each item has one vector
    assert found.policy.items.tolist() == [BEST]


def test_all_estimators_hold_the_truth(files):
    """The chances of the log are given for lists and prefixes; the rest is estimated."""
    log, snapshots, table = files
    with_chances = write_log(
        log.with_name("chances.jsonl"),
        extra=lambda items, row: {
            "contexts": VECTORS[items].tolist(),
            "propensities": [1 / 5, 1 / 4, 1 / 3],
            "position_propensities": [1 / 5] * 3,
        },
    )
    for path in (log, with_chances):
        report = evaluate_policy(read_logs(path), snapshots, ["all"], examination=table)
        assert [verdict.estimator for verdict in report.verdicts] == list(ESTIMATORS)
        for verdict in report.verdicts:
            for found in verdict.estimates:
                off = abs(found.value - truth(f"ctr_{found.metric}"))
                if verdict.estimator != "position-ips":  # right only if clicks depend on no other item
                    assert off < 4 * found.standard_error, (path.name, str(found))
                logged = path is with_chances and not verdict.estimator.startswith("ubm")
                assert (found.propensities == "from the log") == logged
            first, *_ = verdict.estimates
            assert {text for each in verdict.estimates for text in each.warnings} == set(verdict.warnings)
            if first.effective_lists < 150:
                assert f"the weights leave {first.effective_lists:.0f} effective lists" in " ".join(verdict.warnings)


def test_vectors_that_tell_of_users_make_each_list_a_context(files, tmp_path):
    """Then the policy only reorders what was shown, and logged chances, which are of more items, are not used."""
    _, snapshots, table = files
    random = np.random.default_rng(2)
    log = write_log(
        tmp_path / "users.jsonl",
        lists=300,
        extra=lambda items, row: {
            "contexts": (VECTORS[items] * random.uniform(0.9, 1.0)).tolist(),
            "propensities": [1 / 5, 1 / 4, 1 / 3],
        },
    )
    report = evaluate_policy(read_logs(log), snapshots, ("ubm-ips", "cascade-ips"), examination=table)
    assert report.contexts == 300
    items, prefixes = report.verdicts
    assert items.estimates[0].unsupported == 0.0
    [alone] = items.warnings
    assert "was logged in 1 lists of its context or fewer" in alone
    assert prefixes.estimates[0].unsupported > 0.5
    assert "the log's propensities were not used: the policy only reorders what was shown" in prefixes.warnings
    assert any("was never logged in its context (first: users.jsonl line " in text for text in prefixes.warnings)


def test_a_shorter_list_a_temperature_and_the_bootstrap(files):
    log, snapshots, table = files
    short = evaluate_policy(read_logs(log), snapshots, examination=table, size=1).verdicts[0].estimates[0]
    assert short.value == pytest.approx(TABLE[0, 0] * 0.7, abs=4 * short.standard_error)
    flat = evaluate_policy(read_logs(log), snapshots, examination=table, temperature=1000.0).verdicts[0].estimates[0]
    logged = evaluate_policy(read_logs(log), snapshots, examination=table).logged["sum"][0]
    assert flat.value == pytest.approx(logged, abs=0.05)  # nearly any list, as the log's
    drawn = evaluate_policy(read_logs(log), snapshots, examination=table, draws=100).verdicts[0].estimates[0]
    plain = evaluate_policy(read_logs(log), snapshots, examination=table).verdicts[0].estimates[0]
    assert drawn.value == plain.value
    assert drawn.standard_error == pytest.approx(plain.standard_error, rel=0.3)


def test_without_a_table_it_is_learned_and_said(files):
    log, snapshots, _ = files
    [verdict] = evaluate_policy(read_logs(log), snapshots).verdicts
    assert any("the examination table was learned from this log" in text for text in verdict.warnings)


def test_people_and_programs_read_the_same(files):
    log, snapshots, table = files
    report = evaluate_policy(read_logs(log), snapshots, ["ips", "ubm-ips", "ips"], examination=table)
    console = Console(file=StringIO(), width=80)
    show_evaluation(report, console)
    said = console.file.getvalue()
    assert "u@1.7 on 3000 logged lists in 1 contexts" in said
    assert "assumed: log.jsonl does not say what each list was chosen from" in " ".join(said.split())
    assert "…" not in said  # it fits a terminal of 80 columns
    assert "Σ w[k, k′] / lists" in " ".join(said.split())  # brackets are no markup
    found = json.loads(evaluation_json(report))
    names = [(each["estimator"], each["metric"]) for each in found["estimates"]]
    assert names == [("ips", "ctr_sum"), ("ips", "ctr_set"), ("ubm-ips", "ctr_sum"), ("ubm-ips", "ctr_set")]
    assert f"{100 * found['estimates'][2]['value']:.3g} (" in said


def test_what_does_not_fit_is_one_line(files, tmp_path):
    log, snapshots, table = files
    bare = write_log(tmp_path / "bare.jsonl", lists=5, extra=lambda items, row: {})
    wide = write_log(tmp_path / "wide.jsonl", lists=5, extra=lambda items, row: {"contexts": [[0.1, 0.2]] * K})
    large = write_log(tmp_path / "large.jsonl", lists=5, extra=lambda items, row: {"contexts": [[2.0] * ITEMS] * K})
    few = tmp_path / "few.jsonl"
    few.write_text(json.dumps({"items": [0, 2, 1], "clicks": [0, 1, 0], "contexts": VECTORS[[0, 2, 1]].tolist()}))
    write_examination(tmp_path / "short.json", TABLE[:2, :2])
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "broken.snapshot").write_bytes(b"nothing")
    cases = [
        (LogError, "bare.jsonl has no 'contexts'; ubm-linucb ranks by vectors of 5 numbers", {"logs": read_logs(bare)}),
        (LogError, "wide.jsonl has contexts of 2 numbers, the snapshot ranks 5", {"logs": read_logs(wide)}),
        (LogError, r"large.jsonl line 1: candidates\[0, 0\] is 2.0; features lie within", {"logs": read_logs(large)}),
        (
            LogError,
            "few.jsonl line 1: the log shows nothing of what the policy",
            {"logs": read_logs(few), "estimators": ("ips",)},
        ),
        (
            EvaluateError,
            "examination covers 2 positions, but there are lists of 3",
            {"examination": tmp_path / "short.json"},
        ),
        (EvaluateError, "broken.json must be a JSON object with the keys", {"examination": tmp_path / "broken.json"}),
        (EvaluateError, "clip must be a weight above 0, or None, got -1", {"clip": -1}),
        (EvaluateError, "level must lie between 0 and 1, got 95", {"level": 95}),
        (EvaluateError, "estimator must be one of ubm-ips, .*; got 'magic'", {"estimators": ("magic",)}),
        (SnapshotMissing, "no snapshot under .*nowhere", {"policy": tmp_path / "nowhere"}),
        (SnapshotMissing, "no snapshot of 'v' in .*; there are u", {"bucket": "v"}),
        (SnapshotCorrupt, "no snapshot: ", {"policy": tmp_path / "broken.snapshot"}),
    ]
    for kind, words, options in cases:
        with pytest.raises(kind, match=words) as caught:
            evaluate_policy(**({"logs": read_logs(log), "policy": snapshots, "examination": table} | options))
        assert "\n" not in str(caught.value)


def test_of_several_buckets_one_must_be_named(files, tmp_path):
    write_snapshot(tmp_path, name="a")
    write_snapshot(tmp_path, "c2ucb", name="b")
    with pytest.raises(SnapshotMissing, match=r"has snapshots of a, b; say which: --bucket NAME"):
        read_snapshot(tmp_path)
    assert read_snapshot(tmp_path, "b").algorithm == "c2ucb"
    assert read_snapshot(tmp_path / "a.snapshot").algorithm == "ubm-linucb"


def test_the_command(files):
    log, snapshots, table = files
    options = ["evaluate", str(log), "--policy", str(snapshots), "--examination", str(table)]
    shown = CliRunner().invoke(cli, [*options, "--estimator", "ubm-ips", "--estimator", "cascade-dr"])
    assert shown.exit_code == 0, shown.output
    assert "cascade-dr" in shown.output
    found = CliRunner().invoke(cli, [*options, "--json"])
    assert json.loads(found.output)["estimates"][0]["estimator"] == "ubm-ips"
