"""The split as the ranking service follows it: holdout, sticky users, parallel experiments and A/A tests."""

from dataclasses import replace

import pytest
from ranking import Client, serving, write_npz

from streams.local import free_port
from streams.settings import Bucket, Settings, SplitSettings
from streams.split import Split

SIZES = {"dim": 10, "positions": 5}
BUCKETS = {
    "a": Bucket("a", weight=3.0, **SIZES),
    "b": Bucket("b", policy="plackett-luce", **SIZES),
    "lot": Bucket("lot", "random", **SIZES),
    "search": Bucket("search", namespace="search", **SIZES),
}
USERS = [f"u{number}" for number in range(40)]


@pytest.fixture
def ask(tmp_path):
    """Asks a service with a split for lists; its Kafka is away, so that events only wait."""
    shop = write_npz(tmp_path / "shop.npz")
    settings = Settings(kafka=f"127.0.0.1:{free_port()}", buckets=BUCKETS)

    def asked(requests, **split):
        known = replace(settings, split=SplitSettings(**split))
        with serving(known, source=str(tmp_path), catalogue=shop) as server:
            client = Client(server)
            return Split.of(known), [client.post("/rank", request) for request in requests]

    return asked


def test_users_meet_the_buckets_of_the_split_and_its_version(ask):
    split, said = ask([{"user": user} for user in USERS], salt="s")
    assert [one.found["bucket"] for one in said] == [split.bucket_of(user) for user in USERS]
    assert {one.found["split"] for one in said} == {split.version}
    drawn = {one.found["bucket"]: one.found["propensities"] for one in said}
    assert set(drawn) == {"a", "b", "lot"}
    assert drawn["a"] is None
    assert drawn["lot"] == pytest.approx([1 / (400 - place) for place in range(5)])
    assert all(0 < chance <= 1 for chance in drawn["b"])


def test_a_holdout_is_out_of_every_experiment(ask):
    asked = [{"user": user, "namespace": namespace} for user in USERS for namespace in ("", "search")]
    said = ask(asked, holdout=0.5, holdout_bucket="lot")[1]
    met = {(one["user"], one["namespace"]): answer.found["bucket"] for one, answer in zip(asked, said, strict=True)}
    held = {user for user in USERS if met[user, ""] == "lot"}
    assert 5 < len(held) < 35
    assert held == {user for user in USERS if met[user, "search"] == "lot"}


def test_a_sticky_user_stays_and_an_unknown_experiment_is_refused(ask):
    asked = [{"user": user, "bucket_before": "b"} for user in USERS]
    assert {one.found["bucket"] for one in ask(asked, sticky=True)[1]} == {"b"}
    assert len({one.found["bucket"] for one in ask(asked)[1]}) == 3
    [said] = ask([{"user": "u", "namespace": "other"}])[1]
    assert said.status == 404
    assert "no bucket takes users in namespace 'other'" in said.found["error"]


def test_in_an_aa_test_one_bucket_ranks_for_all(ask):
    said = ask([{"user": user} for user in USERS], same_ranking="lot")[1]
    assert {one.found["bucket"] for one in said} == {"a", "b", "lot"}
    assert all(len(one.found["propensities"]) == 5 for one in said)
