"""Alerts and panels evaluated by Prometheus' own engine, on series of a known story."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from streams.join.job.metrics import AFTER_WAIT

FILES = Path(__file__).parents[2] / "deploy"
ALIVE = {
    'glimpse_lag_up{job="lag"}': "1x500",
    'glimpse_join_commits_total{job="join"}': "0+30x500",
    'glimpse_learn_rounds_total{job="learn"}': "0+30x500",
}
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
NEVER_STARTED = "_x500"


@dataclass
class Story:
    """Series as promtool writes them, and what must fire or be shown when."""

    series: dict[str, str]
    firing: dict[str, set[str]] = field(default_factory=dict)  # by time
    shown: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)  # by panel (and legend) and time
    interval: str = "15s"


def panels() -> dict[str, str]:
    """Every expression of the dashboard by title and legend, with Grafana's variables as they would be."""
    board = json.loads((FILES / "dashboard.json").read_text())
    return {
        f"{panel['title']}: {target['legendFormat']}": target["expr"]
        .replace("$__rate_interval", "4m")  # four times the default scrape interval
        .replace("$bucket", ".*")
        for panel in board["panels"]
        for target in panel.get("targets", [])
    }


def check(promtool: str, folder: Path, story: Story) -> None:
    expected = [
        {
            "expr": FIRING,
            "eval_time": at,
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)],
        }
        for at, names in story.firing.items()
    ]
    for (title, at), samples in story.shown.items():
        values = [{"labels": labels, "value": value} for labels, value in samples.items()]
        expected.append({"expr": f"round(({panels()[title]}), 0.001)", "eval_time": at, "exp_samples": values})
    one = {
        "interval": story.interval,
        "input_series": [
            {"series": name, "values": values} for name, values in story.series.items() if values != NEVER_STARTED
        ],
        "promql_expr_test": expected,
    }
    test = {"rule_files": [str(FILES / "alerts.yml")], "evaluation_interval": "15s", "tests": [one]}
    file = folder / "story.yml"
    file.write_text(yaml.safe_dump(test, width=1000, sort_keys=False))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def lag(name: str, values: str, *, group: str = "join", partition: int = 0, **more: str) -> dict[str, str]:
    extra = "".join(f',{label}="{value}"' for label, value in more.items())
    return {f'glimpse_lag_{name}{{group="{group}",topic="clicks",partition="{partition}"{extra}}}': values}


def clicks(**fates: str) -> dict[str, str]:
    return {f'glimpse_join_clicks_total{{partition="0",fate="{fate}"}}': values for fate, values in fates.items()}


def snapshots(bucket: str, epoch: str, offset: str) -> dict[str, str]:
    return {
        f'glimpse_snapshot_epoch{{bucket="{bucket}",job="learn"}}': epoch,
        f'glimpse_snapshot_offset{{bucket="{bucket}",job="learn"}}': offset,
    }


def ranker(bucket: str, epoch: str, offset: str, instance: str = "r") -> dict[str, str]:
    labels = f'{{bucket="{bucket}",job="ranker",instance="{instance}"}}'
    return {f"glimpse_ranker_epoch{labels}": epoch, f"glimpse_ranker_offset{labels}": offset}


def served(name: str, values: str, **more: str) -> dict[str, str]:
    extra = "".join(f',{label}="{value}"' for label, value in more.items())
    return {f'glimpse_serve_{name}{{job="serve",instance="s"{extra}}}': values}


def join_delays(true_s: float) -> dict[str, str]:
    """A hundred lists a second that are written ``true_s`` after they were shown, with a wait of 600 s."""
    bounds = [600 + more for more in AFTER_WAIT]
    return {
        f'glimpse_join_delay_seconds_bucket{{le="{bound:g}"}}': "0+1500x40" if bound >= true_s else "0x40"
        for bound in bounds
    } | {'glimpse_join_delay_seconds_bucket{le="+Inf"}': "0+1500x40"}


DIE_AT_5M = {name: values.replace("x500", "x20") for name, values in ALIVE.items()}
STORIES = {
    "all is well": Story(
        ALIVE | lag("verdict_code", "0x500") | lag("seconds", "0.2x500") | lag("catch_up_seconds", "0 Inf 0 Inf 0x400"),
        {"1m": set(), "1h": set()},
    ),
    "everything dies": Story(
        DIE_AT_5M, {"4m": set(), "60m": {"GlimpseLagUnknown", "GlimpseJoinDown", "GlimpseLearnDown"}}
    ),
    "the join dies": Story(
        ALIVE | {'glimpse_join_commits_total{job="join"}': "0+30x20"}, {"4m": set(), "20m": {"GlimpseJoinDown"}}
    ),
    "the lag exporter never came": Story(
        ALIVE | {'glimpse_lag_up{job="lag"}': NEVER_STARTED}, {"5m": {"GlimpseLagUnknown"}}
    ),
    "one of two exporters reaches Kafka": Story(
        ALIVE | {'glimpse_lag_up{job="lag",instance="b"}': "0x500"}, {"10m": set()}
    ),
    "a burst of dead letters of a new reason": Story(
        ALIVE
        | clicks(dead="0x7 5000x60")
        | {'glimpse_join_dead_letters_total{log="clicks",reason="not a Click"}': "_x8 5000x60"},
        {"1m": set(), "3m": {"GlimpseDeadLetters"}, "14m": set()},
    ),
    "a quiet bucket beside a busy one": Story(
        ALIVE
        | {
            'glimpse_snapshot_published_timestamp_seconds{bucket="quiet"}': "0x500",
            'glimpse_snapshot_published_timestamp_seconds{bucket="busy"}': "0+15x500",
            'glimpse_learn_lagging{partition="0"}': "1x500",
            'glimpse_learn_ready{partition="0"}': "1x500",
            'glimpse_ranker_stale{bucket="quiet",job="ranker",instance="r"}': "1x500",
        }
        | snapshots("quiet", "1x500", "7x500")
        | snapshots("busy", "1x500", "1000+30x500")
        | ranker("quiet", "1x500", "7x500")
        | ranker("busy", "1x500", "970+30x500")  # scraped some seconds before
        | lag("seconds", "1x500", group="learn"),
        {"25m": set(), "60m": set()},
    ),
    "a learner cannot restore": Story(
        ALIVE | {'glimpse_learn_ready{partition="0"}': "1x8 0x400"} | lag("seconds", "0x8 0+15x400", group="learn"),
        {"5m": set(), "30m": {"GlimpseNotRestored", "GlimpseSnapshotsOld", "GlimpseBehind"}},
    ),
    "a bucket whose settings were changed": Story(
        ALIVE | {'glimpse_learn_held{bucket="a"}': "1x400"}, {"1m": set(), "10m": {"GlimpseBucketHeld"}}
    ),
    "a partition that never catches up": Story(
        ALIVE
        | lag("catch_up_seconds", "5x200")
        | lag("catch_up_seconds", "Inf Inf Inf Inf " + "Inf " * 196, partition=1)
        | lag("seconds", "1x200")
        | lag("seconds", "90x200", partition=1),
        {"5m": set(), "20m": {"GlimpseNeverCatchesUp"}},
        {
            ("Time to catch up: {{group}} {{topic}}", "3m"): {},
            ("Partitions that never catch up: {{group}} {{topic}}", "3m"): {'{group="join",topic="clicks"}': 1},
        },
    ),
    "Redis stops, with a publishing interval of 30 s": Story(
        ALIVE | {"glimpse_learn_online_up": "1x8 0x40 1x60", "glimpse_learn_online_failures_total": "0x8 0+0.5x100"},
        {"2m": set(), "5m": {"GlimpseOnlineStoreFails"}, "20m": set()},
    ),
    "Redis restarts for 8 s": Story(
        ALIVE | {"glimpse_learn_online_up": "1x8 0 1x60", "glimpse_learn_online_failures_total": "0x8 44x60"},
        {"3m": set(), "6m30s": set()},
    ),
    "clicks without lists on small traffic": Story(
        ALIVE
        | {
            'glimpse_join_waiting_clicks{partition="0"}': "0+10.5x93 980x400",
            'glimpse_join_events_total{partition="0",log="clicks"}': "0+10.5x500",
        }
        | clicks(used="0x500"),
        {"80m": {"GlimpseClicksWithoutList"}},
    ),
    "a click without a list now and then, also as traffic ends": Story(
        ALIVE
        | {
            'glimpse_join_waiting_clicks{partition="0"}': "0+1x100 100x100 100-1x100 0x200",
            'glimpse_join_events_total{partition="0",log="clicks"}': "0+100x200 20000x300",
        },
        {"20m": set(), "50m": set(), "70m": set(), "80m": set()},
    ),
    "orphans are not called late": Story(
        ALIVE
        | clicks(used="0+100x500", late="0+50x500")
        | {'glimpse_join_orphan_clicks_total{partition="0"}': "0+50x500"},
        {"80m": set()},
    ),
    "clicks come after their horizon": Story(
        ALIVE
        | clicks(used="0+100x500", late="0+50x500")
        | {'glimpse_join_orphan_clicks_total{partition="0"}': "0+10x500"},
        {"80m": {"GlimpseClicksComeTooLate"}},
    ),
    "a ranker that takes nothing over": Story(
        ALIVE | snapshots("a", "1x200", "0+30x200") | ranker("a", "1x200", "0+30x20 600x180"),
        {"5m": set(), "9m": set(), "15m": {"GlimpseRankerStale"}},
    ),
    "a new epoch begins at a lower offset": Story(
        ALIVE
        | snapshots("a", "1x40 2x160", "9000+30x40 100+30x160")
        | ranker("a", "1x41 2x160", "9000+30x41 130+30x159"),
        {"9m": set(), "11m": set(), "14m": set(), "30m": set()},
    ),
    "a ranker that misses a new epoch": Story(
        ALIVE | snapshots("a", "1x40 2x160", "9000x40 100x160") | ranker("a", "1x200", "9000x200"),
        {"9m": set(), "20m": {"GlimpseRankerStale"}},
    ),
    "a ranker cut off from its source": Story(
        ALIVE | {'glimpse_ranker_source_up{bucket="a"}': "1x8 0x100"}, {"4m": set(), "10m": {"GlimpseRankerCutOff"}}
    ),
    "Kafka is away from the ranking service until its memory is full": Story(
        ALIVE
        | served("kafka_up", "1x8 0x100 1x100")
        | served("events_refused_total", "0x60 0+30x40 1200x200")
        | served("lists_unlogged_total", "0x60 0+3x40 120x200")
        | served("events_lost_total", "0x300"),
        {
            "3m": set(),
            "10m": {"GlimpseServeCannotLog"},
            "20m": {"GlimpseServeCannotLog", "GlimpseServeLosesEvents"},
            "60m": set(),
        },
    ),
    "a catalogue that cannot be used": Story(
        ALIVE | served("catalogues_refused_total", "0x8 1x200"),
        {"1m": set(), "5m": {"GlimpseCatalogueRefused"}, "20m": set()},
    ),
    "lists take long": Story(
        ALIVE
        | served("rank_seconds_bucket", "0+100x20 2000+70x80", le="0.05")
        | served("rank_seconds_bucket", "0+100x100", le="0.1")
        | served("rank_seconds_bucket", "0+100x100", le="+Inf"),
        {"4m": set(), "24m": {"GlimpseServeSlow"}},
    ),
    "reports of compare and advise": Story(
        ALIVE
        | {
            'glimpse_compare_alarm{check="join_rate"}': "0x20 1x500",
            'glimpse_compare_stop{bucket="b"}': "0x20 1x500",
            "glimpse_advise_lost_click_ratio": "0.001x20 0.02x500",
            'glimpse_advise_browsing_changed{bucket="b"}': "0x20 1x500",
            'glimpse_advise_rounding_loss_ratio{bucket="b"}': "0.00001x20 0.01x500",
        },
        {
            "4m": set(),
            "10m": {
                "GlimpseComparisonAlarm",
                "GlimpseBucketToStop",
                "GlimpseClicksLost",
                "GlimpseBrowsingChanged",
                "GlimpseRoundingLoss",
            },
        },
    ),
    "the default scrape interval": Story(
        {
            'glimpse_join_clicks_total{partition="0",fate="used"}': "0+600x20",
            'glimpse_learn_rows_total{partition="0"}': "0+1200x20",
        },
        shown={
            ("Clicks by fate: {{fate}}", "10m30s"): {'{fate="used"}': 10},
            ("Rows learned: rows", "10m30s"): {"{}": 20},
        },
        interval="1m",
    ),
    "clicks sent twice are joined": Story(
        clicks(used="0+100x40", repeated="0+100x40", late="0x40", dead="0x40"),
        shown={("Joined fraction: joined", "10m"): {"{}": 1}},
    ),
    "two lag exporters": Story(
        lag("records", "100x20", instance="a")
        | lag("records", "100x20", instance="b")
        | lag("records", "50x20", partition=1, instance="b")
        | lag("offsets_in_per_second", "10x20", instance="a")
        | lag("offsets_in_per_second", "10x20", instance="b")
        | lag("offsets_in_per_second", "10x20", group="audit", instance="b"),
        shown={
            ("Records waiting: {{group}} {{topic}}", "3m"): {'{group="join",topic="clicks"}': 150},
            ("In and out: in {{topic}}", "3m"): {'{topic="clicks"}': 10},
        },
    ),
    "a partition that goes and comes back": Story(
        {
            'glimpse_join_clicks_total{partition="0",fate="used",instance="a"}': "0+150x20 3000x7 3150+150x20",
            'glimpse_join_clicks_total{partition="0",fate="used",instance="b"}': "0x20 150+150x7 1200x20",
        },
        shown={("Clicks by fate: {{fate}}", "9m"): {'{fate="used"}': 10}},
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_what_fires_and_what_is_shown(promtool, tmp_path, story):
    check(promtool, tmp_path, story)


@pytest.mark.parametrize("true_s, median", {600.3: 600.375, 604.0: 603.5, 660.0: 645.0}.items())
def test_the_join_delay_is_read_off_to_a_fraction(promtool, tmp_path, true_s, median):
    """A median between two bounds is taken to be in the middle of them, so it is right to half their distance."""
    story = Story(join_delays(true_s), shown={("Join delay: median", "10m"): {"{}": median}})
    check(promtool, tmp_path, story)


def test_a_wrong_story_fails(promtool, tmp_path):
    with pytest.raises(AssertionError, match="GlimpseJoinDown"):
        check(promtool, tmp_path, Story(DIE_AT_5M, {"60m": {"GlimpseLagUnknown"}}))


def test_the_rules_are_well_formed(promtool):
    done = subprocess.run([promtool, "check", "rules", str(FILES / "alerts.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"SUCCESS: \d\d rules found", done.stdout)


def test_every_panel_is_a_valid_expression(promtool, tmp_path):
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(panels().values())]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
