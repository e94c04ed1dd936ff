"""What Grafana and the alerts ask for is what running jobs show, by name, type and label."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from exposition import parse
from jobs import Jobs, wait_until
from kafka import KafkaProducer
from prometheus_client import Metric

from streams.events.job import EventWriter
from streams.lag.job import LagReader
from streams.lag.verdict import Verdict
from streams.local.server import free_port
from streams.parameters import SnapshotMissing
from streams.parameters.job import KafkaParameters
from streams.rank.job import Ranker
from streams.rank.job.metrics import health_of
from streams.settings import Bucket, Settings, Topics
from streams.web import CONTENT_TYPE

FILES = Path(__file__).parents[2] / "deploy"
BUCKETS = {"main": Bucket("main", "c2ucb", 4, 3), "other": Bucket("other", "pbm-ucb", 0, 3, examination=np.ones(3))}


def expressions() -> dict[str, str]:
    """Every expression that is shipped, by where it stands."""
    board = json.loads((FILES / "dashboard.json").read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", [])
    }
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found[f"${variable['name']}"] = variable["query"]
    for group in yaml.safe_load((FILES / "alerts.yml").read_text())["groups"]:
        if group["name"] in ("glimpse-reports", "glimpse-serve"):
            continue  # written by commands, and shown by the ranking service: tests/deploy/test_reports.py
        found |= {rule["alert"]: rule["expr"] for rule in group["rules"]}
    return found


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bglimpse_\w+", expression))


def family_of(name: str, shown: dict[str, Metric]) -> Metric | None:
    """The family that has samples of this name."""
    families = (family for family in shown.values() if any(sample.name == name for sample in family.samples))
    return next(families, None)


def faults(expression: str, shown: dict[str, Metric]) -> list[str]:
    """Say what in an expression does not fit what is shown."""
    found, wrong = {name: family_of(name, shown) for name in named(expression)}, []
    labels = {"instance", "job"}.union(
        *(sample.labels for family in found.values() if family for sample in family.samples)
    )
    for name, family in found.items():
        if family is None:
            wrong.append(f"nobody shows {name}")
            continue
        asked = set(re.findall(rf"(?:(\w+)\()?\b{name}\b", expression)) - {"absent"}
        counts = family.type in ("counter", "histogram")
        if any((function in ("rate", "increase")) != counts for function in asked):
            wrong.append(f"{name} is a {family.type}")
    for name, inside in re.findall(r"(glimpse_\w+)\{([^}]*)\}", expression):
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', inside):
            there = {sample.labels.get(label) for sample in found[name].samples} if found[name] else set()
            wrong += [
                f'{name} has no {label}="{one}"' for one in value.split("|") if one not in there and "$" not in one
            ]
            if label not in labels:
                wrong.append(f"{name} has no label {label}")
    for listed in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        wrong += [f"no label {label}" for label in listed.split(", ") if label not in labels]
    return wrong


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE, port
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return ""


@pytest.fixture
def running(settings_for, redis_url, tmp_path):
    """A join, a learner and a lag exporter, as processes."""
    ports = {"web_port": free_port(), "join_web_port": free_port()}
    times = {"wait_s": 0.5, "lateness_s": 60.0, "publish_every_s": 0.2, "timestamps": "LogAppendTime"}
    settings = settings_for(buckets=BUCKETS, partitions=2, redis=redis_url, **times, **ports)
    exporter_port = free_port()
    jobs = Jobs(settings, tmp_path)
    jobs.start("join", "--from", "earliest")
    jobs.start("learn")
    jobs.start("lag", "--metrics-port", str(exporter_port), "--every", "0.5", "--window", "5")
    yield settings, jobs, [exporter_port, *ports.values()]
    jobs.close()


def write_some(events: EventWriter, producer: KafkaProducer, topics: Topics, random: np.random.Generator) -> None:
    for bucket, dim in (("main", 4), ("other", 0)):
        contexts = random.uniform(-0.5, 0.5, (3, dim)) if dim else None
        session = f"s{random.integers(100)}"
        shown = events.impression([1, 2, 3], contexts, session_id=session, bucket=bucket, user_id="u")
        events.click(shown, int(random.integers(1, 4)), session_id=session)
    producer.send(topics.clicks, b"poison", key=b"s")
    events.flush()


def total(shown: dict[str, Metric], name: str, **labels: str) -> float:
    """The sum of a metric over all labels but these; of a histogram its count."""
    return sum(
        sample.value
        for sample in shown[name].samples
        if sample.name in (name, f"{name}_count") and labels.items() <= sample.labels.items()
    )


def look(ports: list[int]) -> dict[str, Metric]:
    """What all pages show together."""
    pages = [text for port in ports if (text := page(port))]
    shown = {name: family for text in pages for name, family in parse(text).items()}
    assert len(shown) == sum(len(parse(text)) for text in pages), "two jobs show the same name"
    return shown


def test_every_expression_is_about_what_running_jobs_show(running, promtool):
    settings, jobs, ports = running
    topics, random = Topics.of(settings), np.random.default_rng(1)
    ranker, shown, give_up_at = None, {}, time.monotonic() + 90
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    written = ranked = 0
    with ExitStack() as stack, EventWriter(settings) as events:
        while True:
            write_some(events, producer, topics, random)
            written += 1
            if ranker is None:
                with suppress(SnapshotMissing):
                    ranker = stack.enter_context(Ranker.from_kafka(settings, bucket="main", refresh_s=0.1))
                    ports.append(stack.enter_context(health_of(ranker)).port)
            if ranker is not None:
                ranker.rank(random.uniform(-0.5, 0.5, (5, 4)), size=3)
                ranked += 1
            shown = look(ports)
            wrong = {where: found for where, one in expressions().items() if (found := faults(one, shown))}
            if not wrong:
                break
            jobs.check()
            assert time.monotonic() < give_up_at, wrong
            time.sleep(0.5)
        with LagReader(settings) as reader:
            report = reader.read()
        for text in map(page, ports):
            checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
            assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        shown = settle(ports, jobs, written)
        check_values(shown, settings, written, ranked)
    producer.close()
    assert {group.name: (group.members, group.verdict) for group in report.groups} == {
        "join": (1, Verdict.OK),
        "learn": (1, Verdict.OK),
    }
    assert all(one.position is None or one.position >= one.committed for one in report.groups[0].partitions)


def settle(ports: list[int], jobs: Jobs, written: int) -> dict[str, Metric]:
    """Wait until every event is joined and learned, and return what is shown then."""
    found: dict[str, Metric] = {}

    def done() -> bool:
        found.clear()
        found.update(look(ports))
        lists = total(found, "glimpse_join_impressions_total", fate="joined")
        clicks = sum(total(found, "glimpse_join_clicks_total", fate=fate) for fate in ("used", "repeated", "dead"))
        newest = total(found, "glimpse_snapshot_offset", bucket="main")
        return (
            (lists, clicks) == (2 * written, 3 * written)
            and total(found, "glimpse_snapshot_rounds") == lists
            and total(found, "glimpse_ranker_offset") == newest
        )

    wait_until(done, timeout_s=60, jobs=jobs)
    return found


def check_values(shown: dict[str, Metric], settings: Settings, written: int, ranked: int) -> None:
    """A turn writes an impression of three items and a click on it to each of two buckets, and one poisoned click."""
    lists = 2 * written
    assert total(shown, "glimpse_join_events_total", log="impressions") == lists
    assert total(shown, "glimpse_join_ledger_events", count="clicks") == 3 * written
    assert total(shown, "glimpse_join_clicks_total", fate="used") == lists
    assert total(shown, "glimpse_join_clicks_total", fate="dead") == written
    assert total(shown, "glimpse_join_dead_letters_total", log="clicks") == written
    assert {sample.labels["log"] for sample in shown["glimpse_join_dead_letters_total"].samples} == {"clicks"}
    assert total(shown, "glimpse_join_click_delay_seconds") == lists
    assert total(shown, "glimpse_join_delay_seconds") == lists
    learned = lists + 2 * total(shown, "glimpse_join_corrections_total")
    assert total(shown, "glimpse_learn_lists_total") == learned
    assert total(shown, "glimpse_learn_rows_total") == 3 * learned
    assert total(shown, "glimpse_learn_rounds_total") == total(shown, "glimpse_learn_round_seconds") > 0
    [seconds] = [one.value for one in shown["glimpse_learn_round_seconds"].samples if one.name.endswith("_sum")]
    assert 0 < seconds < 60
    assert total(shown, "glimpse_learn_ready") == len(shown["glimpse_learn_ready"].samples) == 2
    assert total(shown, "glimpse_learn_online_up") == 1
    assert total(shown, "glimpse_learn_online_failures_total") == 0
    assert total(shown, "glimpse_ranker_rank_seconds") == ranked
    with closing(KafkaParameters(settings)) as parameters:
        for name in BUCKETS:
            snapshot = parameters.newest(name)
            assert total(shown, "glimpse_snapshot_offset", bucket=name) == snapshot.samples_offset
            assert total(shown, "glimpse_snapshot_epoch", bucket=name) == snapshot.epoch
            assert total(shown, "glimpse_snapshot_rounds", bucket=name) == snapshot.rounds == written


SHOWN = parse(
    "# HELP glimpse_a_total A.\n# TYPE glimpse_a_total counter\n"
    'glimpse_a_total{x="1"} 1\n'
    "# HELP glimpse_b B.\n# TYPE glimpse_b gauge\nglimpse_b 1\n"
)
CASES = {
    "sum by (x) (rate(glimpse_a_total[1m]))": [],
    'rate(glimpse_a_total{x="1"}[1m]) > glimpse_b': [],
    "glimpse_a_total": ["glimpse_a_total is a counter"],
    "rate(glimpse_b[1m])": ["glimpse_b is a gauge"],
    "absent(glimpse_a_total) or absent(glimpse_b) or max(glimpse_b) == 0": [],
    "absent(glimpse_a_total) or glimpse_a_total": ["glimpse_a_total is a counter"],
    "rate(glimpse_a_total[1m]) / glimpse_a_total": ["glimpse_a_total is a counter"],
    "max by (x) (rate(glimpse_a_total[1m])) - on (y) glimpse_b": ["no label y"],
    'rate(glimpse_a_total{x=~"1|3"}[1m])': ['glimpse_a_total has no x="3"'],
    "glimpse_c": ["nobody shows glimpse_c"],
    "sum by (y) (rate(glimpse_a_total[1m]))": ["no label y"],
    'rate(glimpse_a_total{x="2"}[1m])': ['glimpse_a_total has no x="2"'],
}


@pytest.mark.parametrize("expression, wrong", CASES.items(), ids=CASES)
def test_expressions_that_do_not_fit_are_found(expression, wrong):
    assert faults(expression, SHOWN) == wrong


def test_the_shipped_files_are_complete():
    found = expressions()
    assert len(found) > 40
    board = json.loads((FILES / "dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for group in yaml.safe_load((FILES / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert rule["annotations"].keys() == {"summary", "action"}
