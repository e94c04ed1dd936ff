"""Shadows judged by UBM-IPS on their host's lists, against what they earn once they serve."""

from dataclasses import replace

import numpy as np
from replay_runs import SETTINGS, play
from rich.console import Console
from shadow_worlds import judged

from streams.compare import CompareChoice
from streams.compare.job import show_comparison
from streams.compare.view import shadow_text
from streams.settings import Bucket


def test_a_shadows_estimate_contains_what_it_earns_once_it_serves(tmp_path):
    inside, errors = 0, []
    for seed in range(20):
        found, truth = judged(tmp_path / str(seed), seed)
        value, low, high = found.rates["sum"]
        inside += low <= truth <= high
        errors.append((value - truth) / truth)
        assert low > found.host_rates["sum"], "it is surely better than the lot"
        assert "more than its host's" in shadow_text(found)
    assert inside >= 18
    assert abs(np.mean(errors)) < 0.03


def test_compare_shows_a_shadow_apart(tmp_path):
    shadow = Bucket("shadow", "c2ucb", dim=4, positions=5, host="ubm", weight=0.0)
    settings = replace(SETTINGS, buckets={**SETTINGS.buckets, "shadow": shadow})
    play(tmp_path, 1, settings)
    console = Console(width=200, record=True)
    assert show_comparison(str(tmp_path), settings, CompareChoice(), console=console) == 0
    text = console.export_text()
    assert "shadow shadow of ubm: " in text
    assert "shadow against" not in text, "it is no bucket that serves"
