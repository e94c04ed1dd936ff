"""`glimpse evaluate` on a feed of 40 candidates a request, against what the policy really earns there."""

import json
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

from learner import C2Ucb, Samples, UbmLinUcb
from learner.simulate import World, browsing_table
from schemas.codec import encode
from streams.commands.main import cli
from streams.offline.judge_view import evaluate_policy
from streams.offline.logs import LogError, read_logs
from streams.parameters import DirectoryParameters, take_snapshot
from streams.settings import Bucket, write_examination

K, DIM, CANDIDATES, LISTS = 6, 8, 40, 3000
TABLE = browsing_table(K)


def picked(values, order):
    return np.take_along_axis(values, order[..., None] if values.ndim == 3 else order, axis=1)


def top(contexts, theta, random=None, temperature=0.0):
    noise = 0.0 if random is None else temperature * random.gumbel(size=contexts.shape[:2])
    return np.argsort(-(contexts @ theta + noise), axis=1)[:, :K]


@cache
def world_of(personal):
    return World.random(
        np.random.default_rng(4), dim=DIM, examination=TABLE, items=300, candidates=CANDIDATES, personal=personal
    )


@cache
def learned(personal, kind):
    """A model that has learned from random lists."""
    world, random = world_of(personal), np.random.default_rng(5)
    model = (
        UbmLinUcb(dim=DIM, examination=TABLE, alpha=0.0) if kind == "ubm" else C2Ucb(dim=DIM, positions=K, alpha=0.0)
    )
    _, contexts = world.visits(random, 400 if kind == "c2ucb" else 5000)
    shown = picked(contexts, top(contexts, np.zeros(DIM), random, 1.0))
    model.learn(Samples.from_clicks(shown, world.users.browse(shown, random)))
    return model


@cache
def earned(personal):
    """What many users give to the new policy, per list."""
    world, random, total = world_of(personal), np.random.default_rng(6), []
    for _ in range(10):
        _, contexts = world.visits(random, 5000)
        shown = picked(contexts, top(contexts, learned(personal, "ubm").theta))
        total.append(world.users.browse(shown, random).sum(axis=1).mean())
    return float(np.mean(total))


def write_feed(path, personal, *, seed=7, candidates=True):
    """Lists of an older, not quite settled policy, each with its 40 candidates."""
    world, random = world_of(personal), np.random.default_rng(seed)
    items, contexts = world.visits(random, LISTS)
    contexts = contexts.astype(np.float32)
    order = top(contexts, learned(personal, "c2ucb").theta, random, 0.05)
    clicks = world.users.browse(picked(contexts, order), random).astype(int)
    with path.open("w") as file:
        for row in range(LISTS):
            line = {"items": items[row, order[row]].tolist(), "clicks": clicks[row].tolist()}
            line["contexts"] = contexts[row, order[row]].tolist()
            if candidates:
                line |= {"candidate_items": items[row].tolist(), "candidate_contexts": contexts[row].tolist()}
            file.write(json.dumps(line) + "\n")
    return path, clicks.sum(axis=1).mean()


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("feed")
    write_examination(folder / "table.json", TABLE)
    for name, personal in (("own", 0.0), ("personal", 0.7)):
        bucket = Bucket(name, "ubm-linucb", dim=DIM, positions=K, examination=TABLE, alpha=0.0)
        model = learned(personal, "ubm")
        snapshot = take_snapshot(model, bucket, samples_offset=7, topic_id="t", partition=0, published_at_ms=1)
        DirectoryParameters(folder).put(snapshot, encode(snapshot))
    return folder


@pytest.fixture(scope="module")
def feeds(tmp_path_factory):
    """A feed of each kind, written once: the file, and what its lists earned."""
    folder = tmp_path_factory.mktemp("feeds")
    return {personal: write_feed(folder / f"feed-{personal}.jsonl", personal) for personal in (0.0, 0.7)}


FEEDS = {"vectors of items": (0.0, "own", "ubm-ips"), "vectors that tell of users": (0.7, "personal", "ubm-linear")}


@pytest.mark.parametrize("personal, bucket, usual", FEEDS.values(), ids=FEEDS)
def test_the_estimate_holds_what_was_really_earned(policies, feeds, personal, bucket, usual):
    path, logged = feeds[personal]
    report = evaluate_policy(read_logs(path), policies, bucket=bucket, examination=policies / "table.json")
    [verdict] = report.verdicts
    assert verdict.estimator == usual
    assert report.assumes == ""
    estimate = verdict.estimates[0]
    assert estimate.low < earned(personal) < estimate.high
    assert estimate.standard_error < 0.06 * estimate.value, "wide intervals hold anything"
    assert logged < earned(personal)


def test_without_candidates_it_says_what_it_assumes_and_is_too_high(policies, tmp_path):
    path, _ = write_feed(tmp_path / "bare.jsonl", 0.0, candidates=False)
    report = evaluate_policy(read_logs(path), policies, bucket="own", examination=policies / "table.json")
    assert "does not say what each list was chosen from (candidate_items): taken are all items" in report.assumes
    assert report.verdicts[0].estimates[0].value > 1.05 * earned(0.0), "the best of all items in each list"


def test_what_was_never_logged_twice_is_not_weighed(policies, feeds):
    path, _ = feeds[0.7]
    options = ["--policy", str(policies), "--bucket", "personal", "--examination", str(policies / "table.json")]
    asked = [word for name in ("ubm-ips", "ubm-dr", "ubm-linear") for word in ("--estimator", name)]
    done = CliRunner().invoke(cli, ["evaluate", str(path), *options, *asked, "--json"])
    assert done.exit_code == 0, done.exception
    found = json.loads(done.output)
    assert {"ubm-ips", "ubm-dr"} == found["failed"].keys()
    assert "take ubm-linear, or ips where lists were drawn" in found["failed"]["ubm-ips"]
    assert "ubm-linear" in {each["estimator"] for each in found["estimates"]}


BAD = {
    "an item that was no candidate": ({"candidate_items": [2, 3]}, "item 1 was shown, but is not in"),
    "ids of another kind": ({"candidate_items": ["1", "2"]}, "item ids must be all whole numbers or all text"),
    "an id of 65 bits": ({"candidate_items": [1, 1 << 64]}, "does not fit in 64 bits"),
    "no list": ({"candidate_items": 5}, "must be a list of ids"),
    "vectors alone": ({"candidate_contexts": [[1.0]]}, "'candidate_contexts' without 'candidate_items'"),
    "a vector too few": ({"candidate_items": [1, 2], "candidate_contexts": [[1.0]]}, "for each of the 2 items"),
    "longer vectors": ({"candidate_items": [1], "candidate_contexts": [[1.0, 0.0]]}, "of 2 numbers, 'contexts' of 1"),
}


@pytest.mark.parametrize("more, reason", BAD.values(), ids=BAD)
def test_bad_candidates_are_refused_with_their_line(tmp_path, more, reason):
    file = tmp_path / "lists.jsonl"
    file.write_text(json.dumps({"items": [1], "clicks": [0], "contexts": [[0.5]]} | more))
    with pytest.raises(LogError, match=f"lists.jsonl line 1: .*{reason}"):
        read_logs(file)


def test_logged_chances_are_those_of_a_choice_among_the_candidates(policies, tmp_path):
    """Lists drawn by lot from 8 candidates each: what the policy would show first is weighed by its chance there."""
    world, random, among = world_of(0.7), np.random.default_rng(8), 8
    items, contexts = (column[:, :among] for column in world.visits(random, LISTS))
    contexts = contexts.astype(np.float32)
    order = np.argsort(random.random(items.shape), axis=1)[:, :K]
    clicks = world.users.browse(picked(contexts, order), random).astype(int)
    path = tmp_path / "drawn.jsonl"
    with path.open("w") as file:
        for row in range(LISTS):
            line = {"items": items[row, order[row]].tolist(), "clicks": clicks[row].tolist()}
            line |= {"contexts": contexts[row, order[row]].tolist(), "candidate_items": items[row].tolist()}
            line |= {"candidate_contexts": contexts[row].tolist(), "propensities": [1 / (among - k) for k in range(K)]}
            file.write(json.dumps(line) + "\n")
    report = evaluate_policy(
        read_logs(path),
        policies,
        ("cascade-ips", "ubm-linear"),
        bucket="personal",
        size=1,
        examination=policies / "table.json",
    )
    weighed, modelled = (verdict.estimates[0] for verdict in report.verdicts)
    best = picked(contexts, np.argmax(contexts @ learned(0.7, "ubm").theta, axis=1)[:, None])
    truth = float((TABLE[0, 0] * world.users.attractiveness(best)).mean())
    assert weighed.propensities == "from the log"
    assert weighed.value == pytest.approx(truth, abs=4 * weighed.standard_error)
    assert weighed.standard_error < 0.15 * truth
    assert modelled.value == pytest.approx(truth, abs=4 * modelled.standard_error)
