"""More kills, longer loads and more lists than `make test` has time for."""

from dataclasses import replace

import pytest
from exactly_once import exactly_once
from kills import kill_and_freeze, two_of_each

from streams.demo import run_demo


@pytest.mark.timeout(400)
def test_five_kills_of_each_kind_and_a_long_freeze(settings_for, tmp_path):
    with two_of_each(settings_for, tmp_path) as running:
        kill_and_freeze(running, kills=5, lists=30_000, load_s=36.0)


def test_a_hundred_thousand_lists_give_the_bits_of_the_reference(settings_for, tmp_path):
    with two_of_each(settings_for, tmp_path) as running:
        exactly_once(running, lists=100_000)


def test_the_demo_on_the_real_jobs_finds_the_taste_best_with_examination(settings_for, tmp_path):
    scores = run_demo(lists=6000, seed=1, out=tmp_path, kafka=replace(settings_for(), timestamps="LogAppendTime"))
    distance = {score.bucket: score.distance for score in scores if score.distance is not None}
    assert min(distance, key=distance.get) == "ubm-linucb"
