"""What a rollout changes, and how it goes back."""

from dataclasses import replace

import numpy as np
import pytest
from sample_batches import all_algorithms, make_batch

from streams.parameters import before_of, in_force, take_snapshot
from streams.rollout import RolloutError, Serving, back, onward
from streams.settings import SettingsError

UBM, FULL = (all_algorithms()[name] for name in ("ubm", "full"))
TABLE = UBM.examination


def snapshot_of(bucket):
    model = bucket.model()
    model.learn(make_batch(bucket.name, 5, seed=1)[1])
    return take_snapshot(model, bucket, samples_offset=7, topic_id="t", partition=0, published_at_ms=0)


def served(bucket, **more):
    return Serving(bucket, snapshot_of(bucket), **more)


def after(now, plan):
    """The bucket once a plan was carried out."""
    record = plan.record(truncated=False, now_ms=0)
    return Serving(now.bucket, snapshot_of(in_force(now.bucket, record)), record)


CHANGES = {
    "table": ({"examination": TABLE * 0.9}, ["λ", "table"]),
    "alpha": ({"alpha": 0.5}, ["α"]),
    "ridge": ({"ridge": 9.0}, ["λ"]),
    "algorithm": ({"algorithm": "c2ucb"}, ["algorithm", "λ", "table"]),
}


@pytest.mark.parametrize("changes, named", CHANGES.values(), ids=CHANGES)
def test_a_plan_names_what_changes_and_takes_the_next_epoch(changes, named):
    plan = onward(served(UBM), changes)
    assert [name for name, _, _ in plan.changes()] == named
    assert plan.after.epoch == 2
    assert plan.before.model().settings() == UBM.model().settings()


def test_going_back_raises_the_epoch_and_going_back_again_is_refused():
    now, epochs, settings = served(UBM), [], []
    for plan_of in (lambda one: onward(one, {"ridge": 9.0}), back):
        now = after(now, plan_of(now))
        epochs.append(now.snapshot.epoch)
        settings.append(now.snapshot.ridge)
    assert epochs == [2, 3]
    assert settings == [9.0, UBM.model().settings()["ridge"]]
    with pytest.raises(RolloutError, match="as the settings say: there is no rollout to go back from"):
        back(now)


def test_a_second_change_stands_on_the_first():
    now = after(served(UBM), onward(served(UBM), {"ridge": 9.0}))
    plan = onward(now, {"alpha": 0.5})
    assert (plan.after.ridge, plan.after.alpha, plan.after.epoch) == (9.0, 0.5, 3)


def test_before_the_first_has_caught_up_a_second_goes_back_to_what_serves():
    now = served(UBM)
    under_way = replace(now, rollout=onward(now, {"ridge": 9.0}).record(truncated=False, now_ms=0))
    plan = back(under_way)
    assert plan.after.epoch == 3
    assert plan.after.model().settings() == UBM.model().settings()
    again = onward(under_way, {"ridge": 4.0})
    assert before_of(UBM, again.record(truncated=False, now_ms=0), now.snapshot).ridge == UBM.ridge


def test_without_changes_what_the_settings_say_is_rolled_out():
    edited = replace(served(FULL), bucket=replace(FULL, ridge=9.0))
    plan = onward(edited, {})
    assert (plan.after.ridge, plan.after.epoch, plan.before.model().sha256()) == (9.0, 2, FULL.model().sha256())


def test_when_nobody_knows_the_old_table_there_is_no_way_back():
    edited = replace(served(UBM), bucket=replace(UBM, examination=TABLE * 0.9))
    plan = onward(edited, {"examination": TABLE * 0.8})
    assert plan.before is None
    assert plan.changes()[0] == ("algorithm", "not known", "ubm-linucb")
    with pytest.raises(RolloutError, match="was not known; name it instead"):
        back(after(edited, plan))


REFUSED = {
    "nothing to change": (lambda: onward(served(UBM), {}), "learned with just these parameters; name what to change"),
    "the same again": (lambda: onward(served(UBM), {"examination": TABLE}), "just these parameters"),
    "nothing to go back from": (lambda: back(served(UBM)), "there is no rollout to go back from"),
}


@pytest.mark.parametrize("plan, said", REFUSED.values(), ids=REFUSED)
def test_what_would_change_nothing_is_refused(plan, said):
    with pytest.raises(RolloutError, match=said):
        plan()


def test_a_table_of_another_size_is_refused_before_anything_is_written():
    with pytest.raises(SettingsError, match="needs a table of 4 × 4 chances"):
        onward(served(UBM), {"examination": np.tri(3)})
