"""More kills, longer loads and more lists than `make test` has time for."""

from dataclasses import replace

import pytest
from broker_faults import break_broker
from exactly_once import exactly_once
from kills import kill_and_freeze, kill_quickly, two_of_each
from lost_answers import lose_commits
from open_transaction import hold_transaction
from poison import MEMORY_MB, join_all

from streams.demo import run_demo

CLIENTS = pytest.mark.parametrize("client", ["kafka-python", "confluent"])


@CLIENTS
@pytest.mark.timeout(400)
def test_five_kills_of_each_kind_and_a_long_freeze(settings_for, tmp_path, client):
    with two_of_each(settings_for, tmp_path, kafka_client=client) as running:
        kill_and_freeze(running, kills=5, lists=30_000, load_s=36.0)


@CLIENTS
@pytest.mark.timeout(600)
def test_thirty_kills_of_workers_that_have_hardly_begun_and_eight_of_others(settings_for, tmp_path, client):
    with two_of_each(settings_for, tmp_path, kafka_client=client) as running:
        kill_quickly(running, quick=30, slow=8, lists=30_000, load_s=75.0)


@CLIENTS
@pytest.mark.timeout(900)
def test_a_broker_stopped_and_killed_five_times_each(new_broker, settings_for, tmp_path, client):
    break_broker(new_broker, settings_for, tmp_path, faults=["stop", "kill"] * 5, lists=60_000, kafka_client=client)


@CLIENTS
@pytest.mark.timeout(2_000)
def test_ten_commits_whose_request_or_answer_is_lost(new_broker, settings_for, caplog, client):
    lose_commits(new_broker, settings_for, caplog, kafka_client=client, losses=["answer", "request"] * 5)


@CLIENTS
def test_a_hundred_thousand_lists_give_the_bits_of_the_reference(settings_for, tmp_path, client):
    with two_of_each(settings_for, tmp_path, kafka_client=client) as running:
        exactly_once(running, lists=100_000)


@pytest.mark.timeout(900)
def test_ten_thousand_bad_records_of_every_kind_and_size_hold_nobody_up(settings_for, tmp_path):
    plain = join_all(settings_for, tmp_path / "plain", lists=100_000, bad=0)
    mixed = join_all(settings_for, tmp_path / "mixed", lists=100_000, bad=10_000)
    print(plain, mixed, sep="; ")
    assert mixed.peak_mb < MEMORY_MB
    assert mixed.cpu_s < 2 * plain.cpu_s


def test_a_transaction_that_stays_open_beyond_horizon_and_margin_loses_nothing(settings_for):
    hold_transaction(settings_for, open_s=75.0)


def test_the_demo_on_the_real_jobs_finds_the_taste_best_with_examination(settings_for, tmp_path):
    scores = run_demo(lists=6000, seed=1, out=tmp_path, kafka=replace(settings_for(), timestamps="LogAppendTime"))
    distance = {score.bucket: score.distance for score in scores if score.distance is not None}
    assert min(distance, key=distance.get) == "ubm-linucb"
