"""The figures of the join and of the models, on events and samples with a known outcome."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from exposition import parse, value
from kafka import TopicPartition

from learner import Samples
from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance, EventReader
from streams.join import Checkpoint, Commit, Ledger, SessionJoin
from streams.join.job.metrics import MOST_REASONS, JoinMetrics, label_of
from streams.join.job.owner import JoinOwner
from streams.join.job.watch import JoinWatch
from streams.learn.job.metrics import MOST_BUCKETS, ModelMetrics
from streams.parameters import take_snapshot
from streams.settings import Bucket, LogPair
from streams.web import text_of

BUCKETS = {"a": Bucket("a", dim=2, positions=3), "p": Bucket("p", "pbm-ucb", 0, 3, examination=np.ones(3))}
AT = 1_000_000


def logged(events) -> list[SimpleNamespace]:
    """Records of a log from offset 0, one a second."""
    values = [event if isinstance(event, bytes) else encode(event) for event in events]
    return [
        SimpleNamespace(offset=number, timestamp=AT + 1000 * number, key=b"s", value=value)
        for number, value in enumerate(values)
    ]


def shown(name: str, bucket: str = "a", at_ms: int = AT) -> Impression:
    contexts = np.full((3, BUCKETS[bucket].dim), 0.5, np.float32)
    return Impression(name, "s", bucket, "u", at_ms, np.arange(3).tobytes(), contexts.tobytes(), 3)


def test_what_became_of_every_event_is_counted():
    join = SessionJoin(Acceptance(BUCKETS, future_ms=0), wait_ms=10_000, lateness_ms=60_000, reader=EventReader())
    figures = JoinMetrics()
    join.add_impressions(
        logged([shown("i1"), shown("i1"), shown("i2", "p"), b"poison", shown("i3", at_ms=AT + 99_000)])
    )
    clicks = [Click("i1", "s", 2, AT), Click("i2", "s", 1, AT + 1000), Click("?", "s", 1, AT), Click("i1", "s", 9, AT)]
    join.add_clicks(logged(clicks))
    checkpoint = join.checkpoint(AT + 60_000)
    figures.checkpoint(3, checkpoint, kept=len(join), behind=LogPair(7, 0), now_ms=AT + 60_000)
    figures.committed(0.25, 1_000)
    text = figures.render()
    counts = {"joined": 2, "duplicate": 1, "too_late": 0, "dead": 2}
    for fate, count in counts.items():
        assert value(text, "glimpse_join_impressions_total", partition="3", fate=fate) == count
    for fate, count in {"used": 2, "repeated": 0, "late": 0, "dead": 1}.items():
        assert value(text, "glimpse_join_clicks_total", partition="3", fate=fate) == count
    assert value(text, "glimpse_join_waiting_clicks", partition="3") == 1
    assert value(text, "glimpse_join_open_lists", partition="3") == 0
    assert value(text, "glimpse_join_lag_offsets", partition="3", log="impressions") == 7
    reason = "shown s after its own record"
    assert value(text, "glimpse_join_dead_letters_total", log="impressions", reason=reason) == 1
    assert value(text, "glimpse_join_dead_letters_total", log="clicks", reason="position is beyond the list of") == 1
    assert value(text, "glimpse_join_click_delay_seconds") == 2
    assert value(text, "glimpse_join_click_delay_seconds_bucket", le="0.5") == 1  # the other one took a second
    assert value(text, "glimpse_join_delay_seconds_sum") == 120  # two lists, each written 60 s after it was shown
    assert value(text, "glimpse_join_commit_seconds") == 1
    assert value(text, "glimpse_join_largest_commit_bytes") == 1_000

    join.add_clicks([SimpleNamespace(offset=9, timestamp=AT + 9000, key=b"s", value=encode(Click("i1", "s", 3, AT)))])
    figures.checkpoint(3, join.checkpoint(AT + 61_000), kept=len(join), behind=LogPair(0, 0), now_ms=AT + 61_000)
    assert value(figures.render(), "glimpse_join_corrections_total", partition="3") == 1
    assert value(figures.render(), "glimpse_join_delay_seconds_sum") == 120  # a correction is no new list

    figures.forget(3)
    assert "glimpse_join_open_lists{" not in figures.render()
    assert "glimpse_join_ledger_events{" not in figures.render()
    assert value(figures.render(), "glimpse_join_clicks_total", partition="3", fate="used") == 3  # it was done here


def test_a_partition_that_goes_and_comes_back_counts_nothing_twice():
    figures = JoinMetrics()
    figures.opened(0, Ledger(clicks=100, used=100))
    text = figures.render()
    assert value(text, "glimpse_join_clicks_total", partition="0", fate="used") == 0  # there before the first commit
    assert value(text, "glimpse_join_ledger_events", partition="0", count="used") == 100

    def checkpoint(used: int) -> None:
        commit = replace(Commit.beginning(), ledger=Ledger(clicks=used, used=used))
        figures.checkpoint(
            0, Checkpoint([], [], [], commit, np.zeros(0, np.int64), 0, 0, []), kept=0, behind=LogPair(0, 0), now_ms=0
        )

    checkpoint(130)
    figures.forget(0)  # another worker takes it from 130 to 1,000
    figures.opened(0, Ledger(clicks=1000, used=1000))
    checkpoint(1010)
    text = figures.render()
    assert value(text, "glimpse_join_clicks_total", partition="0", fate="used") == 40
    assert value(text, "glimpse_join_events_total", partition="0", log="clicks") == 40
    assert value(text, "glimpse_join_ledger_events", partition="0", count="used") == 1010


def test_an_idle_partition_has_its_figures_before_any_commit():
    commit = Commit.beginning()
    join = SessionJoin(
        Acceptance(BUCKETS, future_ms=0), wait_ms=10_000, lateness_ms=60_000, resume=commit, reader=EventReader()
    )
    owner = JoinOwner(LogPair(TopicPartition("impressions", 4), TopicPartition("clicks", 4)), now=time.monotonic)
    owner.open(join, commit)
    watch = JoinWatch({4: owner})
    watch.figures.opened(4, commit.ledger)
    watch.turned()
    text = watch.figures.render()
    assert value(text, "glimpse_join_kept_lists", partition="4") == 0
    assert value(text, "glimpse_join_lag_offsets", partition="4", log="clicks") == 0
    assert value(text, "glimpse_join_clicks_total", partition="4", fate="dead") == 0
    assert value(text, "glimpse_join_open_lists", partition="4") == 0


def test_early_late_and_orphan_clicks_are_told_apart():
    join = SessionJoin(Acceptance(BUCKETS, future_ms=1_000), wait_ms=10_000, lateness_ms=10_000, reader=EventReader())
    figures = JoinMetrics()

    def click(offset: int, name: str, at_s: float) -> SimpleNamespace:
        at_ms = AT + round(1000 * at_s)
        return SimpleNamespace(
            offset=offset, timestamp=at_ms, key=b"%d" % offset, value=encode(Click(name, "s", 1, at_ms))
        )

    def show(offset: int, name: str, at_s: float) -> SimpleNamespace:
        at_ms = AT + round(1000 * at_s)
        return SimpleNamespace(
            offset=offset, timestamp=at_ms, key=b"%d" % offset, value=encode(shown(name, at_ms=at_ms))
        )

    join.add_clicks([click(0, "early", 0), click(1, "early", 0.5), click(2, "nobody", 1)])
    join.add_impressions([show(0, "early", 0), show(1, "i", 2)])
    join.add_clicks([click(3, "i", 3), click(4, "i", 4)])  # the second one is a repeat
    figures.checkpoint(0, join.checkpoint(AT + 20_000), kept=2, behind=LogPair(0, 0), now_ms=AT + 20_000)
    text = figures.render()
    assert value(text, "glimpse_join_early_clicks_total", partition="0") == 2
    assert value(text, "glimpse_join_orphan_clicks_total", partition="0") == 0
    assert value(text, "glimpse_join_waiting_clicks", partition="0") == 1
    assert value(text, "glimpse_join_click_delay_seconds") == 2  # a position is clicked once

    join.add_impressions([show(2, "j", 30), show(3, "j2", 30)])
    join.add_clicks([click(5, "i", 25), click(6, "nobody", 26)])
    figures.checkpoint(
        0, join.checkpoint(AT + 30_000), kept=1, behind=LogPair(0, 0), now_ms=AT + 30_000
    )  # "i" is forgotten
    join.add_impressions([show(4, "k", 80), show(5, "k2", 80)])
    join.add_clicks([click(7, "k", 80), click(8, "k2", 80)])
    figures.checkpoint(0, join.checkpoint(AT + 80_000), kept=1, behind=LogPair(0, 0), now_ms=AT + 80_000)
    text = figures.render()
    assert value(text, "glimpse_join_clicks_total", partition="0", fate="late") == 3
    assert value(text, "glimpse_join_orphan_clicks_total", partition="0") == 2
    assert join.ledger.balanced


def test_delays_are_fine_where_lists_close():
    figures = JoinMetrics(wait_s=600, lateness_s=600)
    bounds = [
        float(sample.labels["le"])
        for sample in parse(figures.render())["glimpse_join_delay_seconds"].samples
        if "le" in sample.labels
    ]
    near = [bound for bound in bounds if 600 < bound <= 610]
    assert near == [600.25, 600.5, 601, 602, 605, 610]
    clicks = parse(figures.render())["glimpse_join_click_delay_seconds"].samples
    there = {sample.labels.get("le") for sample in clicks}
    assert {"600", "720", "750", "900", "1080", "1200", "1500", "1800"} <= there


LABELS = {
    "impression 'web:abc' has other content than at offset 7; the lower": "impression has other content than at offset",
    r"""impression 'o\'b"x; yz' has other content than at offset 7""": "impression has other content than at offset",
    "unknown bucket 'exp:red'; configured are a, b": "unknown bucket",
    'unknown bucket "it\'s: red"; configured are a, b': "unknown bucket",
    "context nan of position 1, feature 2 is not within ±1": "context of position feature is not within",
    "context -inf of position 1, feature 2 is not within ±1": "context of position feature is not within",
    "reward nan is not a finite number of 0 or more": "reward is not a finite number of or more",
    "information about infants": "information about infants",
}


@pytest.mark.parametrize("reason, label", LABELS.items())
def test_labels_hold_no_ids_and_no_numbers(reason, label):
    assert label_of(reason) == label


def test_reasons_never_become_too_many_labels():
    figures = JoinMetrics(LogPair("x-impressions", "x-clicks"))
    words = [f"bad {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(200)]
    letters = [SimpleNamespace(topic="x-clicks", reason=word) for word in words]
    figures._count_refusals(letters)
    samples = parse(figures.render())["glimpse_join_dead_letters_total"].samples
    assert len(samples) == MOST_REASONS + 1
    assert sum(sample.value for sample in samples) == 200


def test_models_show_how_far_they_went():
    bucket, models = BUCKETS["a"], ModelMetrics()
    model = bucket.model()
    place = {"topic_id": "t", "partition": 0}
    first = take_snapshot(model, bucket, samples_offset=0, published_at_ms=5000, **place)
    models.published(first)
    model.learn(Samples.from_clicks(np.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]]), np.array([[1.0, 0.0, 0.0]])))
    second = take_snapshot(model, bucket, samples_offset=1, published_at_ms=6000, **place)
    models.published(second)
    models.published(second)  # restored: the same version says nothing about movement
    models.look({"a": second})
    text = text_of(models.families({"a": second}))
    assert value(text, "glimpse_snapshot_buckets_left_out") == 0
    assert value(text, "glimpse_snapshot_published_timestamp_seconds", bucket="a") == 6
    norm = float(np.linalg.norm(model.theta))
    assert value(text, "glimpse_snapshot_theta_norm", bucket="a") == pytest.approx(norm)
    assert value(text, "glimpse_snapshot_theta_moved", bucket="a") == pytest.approx(norm)  # it began at zero
    assert value(text, "glimpse_snapshot_gram_condition", bucket="a") == pytest.approx(np.linalg.cond(model.gram))

    many = {f"b{number:03}": replace(second, bucket=f"b{number:03}") for number in range(150)}
    text = text_of(models.families(many))
    assert len(parse(text)["glimpse_snapshot_rounds"].samples) == MOST_BUCKETS
    assert value(text, "glimpse_snapshot_buckets_left_out") == 50


def test_a_context_free_model_has_no_condition():
    bucket, models = BUCKETS["p"], ModelMetrics()
    snapshot = take_snapshot(bucket.model(), bucket, samples_offset=0, topic_id="t", partition=0, published_at_ms=1)
    models.look({"p": snapshot})
    assert not parse(text_of(models.families({"p": snapshot})))["glimpse_snapshot_gram_condition"].samples
