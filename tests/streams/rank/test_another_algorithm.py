"""An algorithm that is written here and registered is learned, published, ranked and served like any other."""

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from ranking import Client, serving, write_npz

from learner import ALGORITHMS, Bandit, Samples
from learner.bandits import Option
from learner.checks import BrokenInvariant, check_bandit
from learner.exact import GRID, checked_cells
from schemas.records import Impression
from streams.embedded.job import Embedded
from streams.events.job.produce import simulated_events
from streams.parameters import (
    AlgorithmUnknown,
    ConfigChanged,
    SnapshotCorrupt,
    before_of,
    in_force,
    take_snapshot,
    verify,
)
from streams.rank.job import Ranker
from streams.rollout import Serving, onward
from streams.settings import Bucket, Settings, SettingsError, load

K, DIM, START_MS = 3, 4, 1_700_000_000_000


def checked_lean(lean):
    if not 0 <= lean <= 1:
        raise ValueError("must lie within 0 and 1, for the first feature is at most 1")
    return lean


class Centroid(Bandit):
    """Ranks by likeness to what was clicked: θ = Σ reward · x / lists, with ``lean`` on top of its first number."""

    name = "centroid"
    options = recorded = ("dim", "positions", "reward_scale")
    own_options: ClassVar = {"lean": Option(0.25, checked_lean)}

    def __init__(self, dim, *, positions, reward_scale=1.0, lean=0.25):
        super().__init__(positions=positions, reward_scale=reward_scale)
        self.dim, self.lean, self.clicked = dim, lean, np.zeros(dim, np.int64)

    @classmethod
    def state_sizes(cls, dim, positions):
        return {"rounds": 1, "clicked": dim}

    @property
    def theta(self):
        return self.clicked / (GRID * max(self.rounds, 1)) + self.lean * (np.arange(self.dim) == 0)

    def learn(self, samples):
        self._check_lists(samples)
        if samples.rows and samples.dim != self.dim:
            raise ValueError(f"context must have {self.dim} columns, got {samples.dim}")
        rows = np.rint(GRID * samples.reward[:, None] * samples.context).astype(np.int64)
        self.clicked += np.repeat(samples.sign, samples.size) @ rows
        self.rounds += int(samples.sign.sum())

    def predict(self, candidates, items=None):
        return np.asarray(candidates) @ self.theta

    def state(self):
        return {"rounds": np.array([self.rounds]), "clicked": self.clicked.copy()}

    def restore(self, state):
        clicked, [rounds] = checked_cells(state, "clicked", self.dim), checked_cells(state, "rounds", 1)
        self.clicked, self.rounds = clicked.copy(), int(rounds)


@pytest.fixture
def centroid(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, Centroid.name, Centroid)
    return Bucket("main", Centroid.name, dim=DIM, positions=K, options={"lean": 0.5})


def test_it_is_learned_published_ranked_and_served(centroid, tmp_path):
    settings = Settings(kafka="127.0.0.1:9", wait_s=60, lateness_s=60, buckets={"main": centroid})
    events = list(simulated_events(settings, 200, seed=3, clock=lambda: START_MS / 1000))
    expected = Centroid(DIM, positions=K, lean=0.5)
    for shown in [event for event in events if isinstance(event, Impression)]:
        rewards = np.zeros(shown.size)
        for click in [event for event in events if not isinstance(event, Impression)]:
            if click.impression_id == shown.impression_id:
                rewards[click.position - 1] = click.reward
        extent = max(shown.rendered, *(np.flatnonzero(rewards) + 1), 1)
        expected.learn(Samples.from_clicks([shown.contexts_array], [rewards], [shown.items_array], sizes=[extent]))
    with Embedded(tmp_path, settings) as loop:
        loop.append(events, at_ms=START_MS)
        [snapshot] = loop.step(START_MS + 1_000_000)
        assert (snapshot.algorithm, snapshot.sha256) == ("centroid", expected.sha256())
        assert snapshot.theta_array.tolist() == expected.theta.tolist()
        assert expected.theta.any()
    with pytest.raises(ConfigChanged, match=r"""options '{"lean": 0.25}' \(snapshot: '{"lean": 0.5}'\)"""):
        Embedded(tmp_path, replace(settings, buckets={"main": replace(centroid, options={})}))
    contexts = np.random.default_rng(1).uniform(-1, 1, (30, DIM))
    with Ranker.from_directory(tmp_path / "snapshots", bucket="main", refresh_s=None) as ranker:
        best = np.argsort(-(contexts @ expected.theta))[:K]
        assert ranker.rank(contexts, size=K).tolist() == best.tolist()
    shop = write_npz(tmp_path / "shop.npz", items=50, columns=DIM - 1)
    held = np.column_stack([np.ones(50), np.load(shop)["features"]])
    given = {"items": list(range(100, 130)), "contexts": contexts.tolist()}
    with serving(settings, source=str(tmp_path / "snapshots"), catalogue=shop) as server:
        client = Client(server)
        answer = client.post("/rank", {"user": "u", "session": "s", "candidates": given}).found
        assert (answer["version"], answer["items"]) == ([1, snapshot.samples_offset], (100 + best).tolist())
        answer = client.post("/rank", {"user": "u", "session": "s"}).found
        assert answer["items"] == np.argsort(-(held @ expected.theta))[:K].tolist()


TOML = '[buckets.main]\nalgorithm = "centroid"\ndim = 4\npositions = 3\n'


def test_its_own_option_is_a_key_of_its_bucket_and_checked_by_itself(centroid, tmp_path):
    def lean(said):
        (tmp_path / "glimpse.toml").write_text(said)
        return load(tmp_path / "glimpse.toml", {}).buckets["main"].model().lean

    assert (lean(TOML), lean(TOML + "lean = 1")) == (0.25, 1.0)
    for said, why in {
        TOML + "lean = 1.5": "buckets.main.lean = 1.5: must lie within 0 and 1, for the first",
        TOML + 'lean = "1"': "buckets.main.lean = '1': must be a number",
        TOML + "leen = 1": "buckets.main.leen = .*: no such key; did you mean lean",
        "[buckets.main]\nlean = 1": "buckets.main.lean = .*: no such key",
    }.items():
        with pytest.raises(SettingsError, match=re.escape(why).replace(r"\.\*", ".*")):
            lean(said)


def test_its_own_option_is_rolled_out(centroid):
    plain = Bucket("main", "c2ucb", dim=DIM, positions=K)
    snapshot = take_snapshot(centroid.model(), centroid, samples_offset=0, topic_id="t", partition=0, published_at_ms=0)
    assert before_of(plain, None, snapshot).options == {"lean": 0.5}
    leaning = onward(Serving(centroid, snapshot), {"alpha": 1.0})
    assert leaning.after.options == {"lean": 0.5}
    rollout = leaning.record(truncated=False, now_ms=0)
    assert in_force(centroid, rollout).options == {"lean": 0.5}
    plan = onward(Serving(replace(centroid, options={"lean": 1.0}), snapshot), {})
    assert plan.changes() == [("lean", "0.5", "1")]
    away = onward(Serving(centroid, snapshot), {"algorithm": "c2ucb"})
    assert away.after.options == {}
    assert in_force(centroid, away.record(truncated=False, now_ms=0)).options == {}


def test_a_snapshot_with_other_options_is_refused(centroid):
    snapshot = take_snapshot(centroid.model(), centroid, samples_offset=0, topic_id="t", partition=0, published_at_ms=0)
    verify(snapshot)
    with pytest.raises(SnapshotCorrupt, match="promises"):
        verify(replace(snapshot, options='{"lean": 0.75}'))
    for text in ('{"lean": 7}', '{"lean": "much"}', '{"lean": NaN}', "[]", "{", "[" * 100_000):
        with pytest.raises(SnapshotCorrupt, match=r"main@1\.0 has options that cannot be used: "):
            verify(replace(snapshot, options=text))
    for text, names in {"": "lean", '{"lean": 1, "tilt": 2}': "tilt"}.items():
        with pytest.raises(AlgorithmUnknown, match=f"other options of 'centroid' than this process knows: {names};"):
            verify(replace(snapshot, options=text))


def test_it_is_refused_where_it_is_not_registered():
    with pytest.raises(SettingsError, match="algorithm = 'centroid': must be one of ubm-linucb, c2ucb"):
        Bucket("main", Centroid.name, dim=DIM, positions=K)


class RoundsBatches(Centroid):
    def learn(self, samples):
        before = self.clicked.copy()
        super().learn(samples)
        self.clicked = before + (self.clicked - before) // 2 * 2


class ForgetsRounds(Centroid):
    def restore(self, state):
        super().restore(state)
        self.rounds = 0


class KeepsNoFeatures(Centroid):
    recorded = ("positions", "reward_scale")

    @classmethod
    def frozen(cls, settings):
        return cls(DIM, positions=settings["positions"])

    def settings(self):
        return super().settings() | {"dim": self.dim}


class LearnsBeforeItLooks(Centroid):
    def learn(self, samples):
        self.rounds += int(samples.sign.sum())
        self._check_lists(samples)
        self.rounds -= int(samples.sign.sum())
        super().learn(samples)


class RoundsHalvesUp(Centroid):
    def learn(self, samples):
        before = self.clicked.copy()
        super().learn(samples)
        steps = GRID * np.repeat(samples.sign, samples.size)[:, None] * samples.reward[:, None] * samples.context
        self.clicked = before + np.floor(steps + 0.5).astype(np.int64).sum(axis=0)


FAULTS = {
    "a batch equals its lists one by one": RoundsBatches,
    "a restored state equals the model that it was taken from": ForgetsRounds,
    "what was taken back leaves no trace": RoundsHalvesUp,
    "settings are those recorded": KeepsNoFeatures,
    "refusing a position beyond K changes nothing": LearnsBeforeItLooks,
}


def check_twenty_times(kind):
    for seed in range(20):
        check_bandit(lambda: kind(DIM, positions=K), seed=seed)


def test_it_keeps_what_algorithms_promise():
    check_twenty_times(Centroid)


@pytest.mark.parametrize("invariant, kind", FAULTS.items(), ids=FAULTS)
def test_a_planted_fault_is_found_and_named(invariant, kind):
    with pytest.raises(BrokenInvariant, match=f"does not hold: {invariant}"):
        check_twenty_times(kind)
