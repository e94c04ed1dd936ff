"""Users are split by a hash: in proportion, everywhere alike, and a change moves no more of them than it must."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

from streams.settings import Bucket, Settings, SplitSettings
from streams.split import Split, UnknownNamespace

USERS = [f"user-{number}" for number in range(20_000)]
GOLDEN = {  # written once; no release and no language may give others
    "": "a",
    "u-1": "c",
    "u-6": "b",
    "u-9": "b",
    "17": "a",
    "Zoë": "a",
    "用户-9": "a",
    "🙂": "c",
    "a longer one, with spaces and a NUL \0 inside": "a",
}


def split_by(weights, **rule):
    return Split(weights, SplitSettings(**rule))


def one(weights, **rule):
    return split_by({"": weights}, **rule)


def test_a_million_users_are_spread_by_the_weights():
    split = one({"a": 1, "b": 2, "c": 5}, salt="s")
    counts = Counter(split.bucket_of(f"{number}") for number in range(1_000_000))
    expected = {"a": 125_000, "b": 250_000, "c": 625_000}
    distance = sum((counts[name] - wanted) ** 2 / wanted for name, wanted in expected.items())
    assert distance < chi2.isf(1e-3, df=2)


SPLITS = {
    "another salt": (one({"a": 1, "b": 1, "c": 2}, salt="other"), ""),
    "another namespace": (split_by({"n": {"a": 1, "b": 1, "c": 2}}, salt="s"), "n"),
    "salt and namespace that read the same together": (split_by({"s": {"a": 1, "b": 1, "c": 2}}, salt=""), "s"),
}


@pytest.mark.parametrize("other, namespace", SPLITS.values(), ids=SPLITS)
def test_splits_are_independent(other, namespace):
    split = one({"a": 1, "b": 1, "c": 2}, salt="s")
    table = np.zeros((3, 3))
    for user in range(50_000):
        table["abc".index(split.bucket_of(f"{user}")), "abc".index(other.bucket_of(f"{user}", namespace))] += 1
    assert chi2_contingency(table).pvalue > 1e-3


def test_golden_users():
    split = one({"a": 1, "b": 0.5, "c": 2.25}, salt="autumn")
    assert {user: split.bucket_of(user) for user in GOLDEN} == GOLDEN
    assert split.version == "a2be26364fe5"


RAMPS = {
    "two buckets": ({"new": 0.1, "old": 0.9}, {"new": 0.2, "old": 0.8}),
    "among several": ({"new": 1, "x": 4, "y": 5}, {"new": 2.25, "x": 4, "y": 5}),
    "a new bucket": ({"x": 4, "y": 5}, {"new": 2, "x": 4, "y": 5}),
}


@pytest.mark.parametrize("before, after", RAMPS.values(), ids=RAMPS)
def test_a_ramp_moves_users_into_the_bucket_and_nowhere_else(before, after):
    one_way, way_back = one(before, salt="s"), one(after, salt="s")
    moves = Counter((one_way.bucket_of(user), way_back.bucket_of(user)) for user in USERS)
    moved = {pair: count for pair, count in moves.items() if pair[0] != pair[1]}
    assert {into for _, into in moved} == {"new"}
    grown = after["new"] / sum(after.values()) - before.get("new", 0) / sum(before.values())
    assert sum(moved.values()) / len(USERS) == pytest.approx(grown, abs=0.01)  # the fewest that can be


def test_the_order_of_names_does_not_matter():
    forth, back = one({"a": 1, "b": 2, "c": 3}), one({"c": 3, "b": 2, "a": 1})
    assert all(forth.bucket_of(user) == back.bucket_of(user) for user in USERS[:500])
    assert forth.version == back.version


def test_the_holdout_stays_whatever_the_salt_and_the_namespace():
    weights = {"": {"a": 1, "b": 1}, "search": {"c": 1, "d": 1}}
    splits = [split_by(weights, salt=salt, holdout=0.1, holdout_bucket="control") for salt in ("x", "y")]
    held = [
        {user for user in USERS if split.bucket_of(user, namespace) == "control"}
        for split in splits
        for namespace in weights
    ]
    assert all(users == held[0] for users in held)
    assert len(held[0]) / len(USERS) == pytest.approx(0.1, abs=0.01)
    more = split_by(weights, salt="z", holdout=0.2, holdout_bucket="control")
    assert all(more.bucket_of(user) == "control" for user in held[0])


def test_a_sticky_split_keeps_who_is_known():
    split = one({"a": 0, "b": 1}, sticky=True)
    assert split.bucket_of("u") == "b"
    assert split.bucket_of("u", before="a") == "a"  # of weight 0: nobody new, but who was there stays
    assert split.bucket_of("u", before="gone") == "b"
    assert one({"a": 0, "b": 1}).bucket_of("u", before="a") == "b"


def test_an_aa_test_splits_alike_and_ranks_alike():
    real, same = one({"a": 1, "b": 1}), one({"a": 1, "b": 1}, same_ranking="a")
    assert all(real.bucket_of(user) == same.bucket_of(user) for user in USERS[:500])
    assert [same.ranked_by("a"), same.ranked_by("b")] == ["a", "a"]
    assert [real.ranked_by("a"), real.ranked_by("b")] == ["a", "b"]


OTHERS = {
    "salt": {"salt": "t"},
    "weights": {"weights": {"": {"a": 1, "b": 2}}},
    "namespace": {"weights": {"n": {"a": 1, "b": 1}}},
    "holdout": {"holdout": 0.1, "holdout_bucket": "a"},
    "sticky": {"sticky": True},
    "A/A": {"same_ranking": "a"},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_another_rule_is_another_version(change):
    usual = {"weights": {"": {"a": 1, "b": 1}}, "salt": "s"}
    assert split_by(**(usual | change)).version != split_by(**usual).version


def test_the_split_of_settings():
    buckets = [
        Bucket("a", weight=3.0),
        Bucket("b"),
        Bucket("s", namespace="search"),
        Bucket("control", weight=0.0),
    ]
    split = SplitSettings(salt="s", holdout=0.05, holdout_bucket="control")
    settings = Settings(buckets={bucket.name: bucket for bucket in buckets}, split=split)
    assert Split.of(settings).weights == {"": {"a": 3.0, "b": 1.0}, "search": {"s": 1.0}}
    assert {Split.of(settings).bucket_of(user, "search") for user in USERS[:500]} == {"s", "control"}


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0, "b": 2.0}, {"a": float("nan")}], ids=str)
def test_weights_that_cannot_be_used_are_refused(weights):
    with pytest.raises(ValueError, match="must have weights"):
        one(weights)


def test_an_unknown_namespace_is_refused():
    with pytest.raises(UnknownNamespace, match="namespace 'search'; there are ''"):
        one({"a": 1}).bucket_of("u", "search")
