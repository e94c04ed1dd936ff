"""glimpse show beside a rollout: what is in force, and how far the next epoch is."""

from dataclasses import replace

from sample_batches import all_algorithms, make_batch

from schemas.records import Progress
from streams.commands.show import Rollouts, line, page
from streams.parameters import rollout_of, take_snapshot

BUCKET = all_algorithms()["ubm"]
OTHER = replace(BUCKET, examination=BUCKET.examination * 0.9, epoch=2)


def snapshot_of(bucket, offset):
    model = bucket.model()
    model.learn(make_batch("ubm", 5, seed=1, taken_back=0.0)[1])
    return take_snapshot(model, bucket, samples_offset=offset, topic_id="t", partition=3, published_at_ms=0)


def row(rollouts, bucket, snapshot):
    return rollouts.row(bucket, snapshot, where="here", now_ms=0)


def test_a_candidate_is_named_with_how_far_it_is_and_the_served_table_is_still_known():
    rollout = rollout_of(OTHER, BUCKET, now_ms=0)
    known = Rollouts({"ubm": rollout}, {"ubm": snapshot_of(OTHER, 30)}, {3: Progress("t", 3, 120, 0, [], 120)})
    found = row(known, BUCKET, snapshot_of(BUCKET, 120))
    assert found["settings_differ"] == []
    assert found["table"] == BUCKET.examination.tolist()
    assert line(found).split("\t")[6:] == ["rolled out", "epoch 2 at 25%"]
    text = "\n".join(page(found))
    assert "candidate epoch 2 (ubm-linucb) has learned 5 lists, to samples offset 30 of 120 (25%)" in text
    assert "rollout   bucket 'ubm': a rollout (epoch 2) is in force over examination of the settings" in text


def test_once_it_serves_its_own_table_is_shown_and_nothing_differs():
    rollout = rollout_of(OTHER, BUCKET, now_ms=0)
    found = row(Rollouts({"ubm": rollout}), BUCKET, snapshot_of(OTHER, 130))
    assert (found["table"], found["settings_differ"]) == (OTHER.examination.tolist(), [])
    assert line(found).split("\t")[6:] == ["rolled out"]
    same = row(Rollouts({"ubm": rollout}), OTHER, snapshot_of(OTHER, 130))
    assert "rollout   epoch 2, as the settings say" in page(same)


def test_settings_that_were_changed_without_a_rollout_still_differ():
    found = row(Rollouts(), replace(BUCKET, ridge=9.0), snapshot_of(BUCKET, 3))
    assert [text.partition(" ")[0] for text in found["settings_differ"]] == ["ridge"]


def test_a_rollout_that_does_not_fit_the_settings_is_told():
    shorter = replace(BUCKET, examination=BUCKET.examination[:2, :2], positions=2)
    found = row(Rollouts({"ubm": rollout_of(OTHER, BUCKET, now_ms=0)}), shorter, snapshot_of(BUCKET, 3))
    assert "cannot be learned as its rollout (epoch 2) says" in found["settings_differ"][0]
