"""Users are split by a salted hash, in proportion, the same way every time."""

from collections import Counter

import pytest

from streams.split import bucket_of

USERS = [f"user-{number}" for number in range(20_000)]


def test_shares_follow_the_weights():
    counts = Counter(bucket_of(user, {"a": 3, "b": 1, "none": 0}, salt="s") for user in USERS)
    assert set(counts) == {"a", "b"}
    assert counts["a"] / len(USERS) == pytest.approx(0.75, abs=0.015)


def test_a_user_stays_and_order_does_not_matter():
    for user in USERS[:200]:
        assert bucket_of(user, ["a", "b", "c"], salt="s") == bucket_of(user, ["c", "a", "b"], salt="s")


def test_another_salt_splits_anew():
    same = sum(bucket_of(user, ["a", "b"], salt="x") == bucket_of(user, ["a", "b"], salt="y") for user in USERS)
    assert same / len(USERS) == pytest.approx(0.5, abs=0.015)


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0, "b": 2.0}, {"a": float("nan")}], ids=str)
def test_weights_that_cannot_be_used_are_refused(weights):
    with pytest.raises(ValueError, match="weights must be"):
        bucket_of("u", weights)
