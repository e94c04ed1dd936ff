"""What the alerts on reports and on the ranking service ask for is what they write and show."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from compared_lists import traffic
from exposition import parse
from ranking import Client, serving

from streams.advise import Advice, BrowsingAdvice, RoundingAdvice, advise_delays
from streams.advise.browsing import WindowFit
from streams.advise.job import advice_metrics
from streams.compare import CompareChoice, ListSums, LostClicks, compare
from streams.compare.job import comparison_metrics
from streams.events import EventReader
from streams.settings import Bucket, Settings

RULES = Path(__file__).parents[2] / "deploy" / "alerts.yml"


def asked(group_name: str) -> set[str]:
    """The series that the rules of a group are about."""
    [group] = [one for one in yaml.safe_load(RULES.read_text())["groups"] if one["name"] == group_name]
    return {name for rule in group["rules"] for name in re.findall(r"\bglimpse_\w+", rule["expr"])}


def test_every_expression_is_about_what_the_commands_write():
    sums = ListSums()
    for name in ("old", "new"):
        sums.add(traffic(name, lists=2_000, chance=0.2, seed=1))
    found = comparison_metrics(compare(sums, LostClicks(reader=EventReader()), CompareChoice(control="old")))
    fit = WindowFit(10_000, {"table in force": 1.3, "fresh fit": 1.2}, "fresh fit", 0.1, 9.0)
    advice = Advice(
        "kafka",
        600,
        600,
        advise_delays(np.linspace(0, 900, 1000), wait_s=600, lateness_s=200),
        browsing={"b": BrowsingAdvice(fit, 10_000)},
        rounding={"b": RoundingAdvice(100.0, 1.0, 0.002, 1.25, True)},
    )
    written = {}
    for text in (found, advice_metrics(advice)):
        for family in parse(text.decode()).values():
            written |= {sample.name: sample.value for sample in family.samples}
    assert asked("glimpse-reports") <= set(written)
    assert written["glimpse_advise_browsing_changed"] == 1
    assert written["glimpse_advise_lost_click_ratio"] == pytest.approx(0.111)
    assert written["glimpse_compare_alarm"] == 0


def test_every_expression_on_the_ranking_service_is_about_what_it_shows(tmp_path):
    settings = Settings(kafka="127.0.0.1:9", buckets={"main": Bucket("main", dim=1, positions=2)})
    with serving(settings, source=str(tmp_path)) as server:
        shown = parse(Client(server).get("/metrics").found)
    assert asked("glimpse-serve") <= {sample.name for family in shown.values() for sample in family.samples}
