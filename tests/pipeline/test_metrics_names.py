"""What Grafana and the alerts ask for is what running jobs show, by name, type and label."""

import json
import re
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from exposition import Family, parse
from jobs import Jobs
from kafka import KafkaProducer

import streams
from streams.client import EventWriter
from streams.lagging.reader import LagReader
from streams.lagging.rules import Verdict
from streams.local.server import free_port
from streams.parameters import SnapshotMissing
from streams.ranker import Ranker
from streams.settings import Bucket
from streams.topics import Topics

FILES = Path(streams.__file__).parent / "dashboard" / "grafana"
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
        found |= {rule["alert"]: rule["expr"] for rule in group["rules"]}
    return found


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bglimpse_\w+", expression))


def family_of(name: str, shown: dict[str, Family]) -> Family | None:
    """The family that has samples of this name."""
    for suffix in ("", "_bucket", "_sum", "_count"):
        family = shown.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if family is not None and any(kind == suffix for kind, _ in family.samples):
            return family
    return None


def faults(expression: str, shown: dict[str, Family]) -> list[str]:
    """Say what in an expression does not fit what is shown."""
    found, wrong = {name: family_of(name, shown) for name in named(expression)}, []
    labels = {"instance", "job"}.union(*(family.labels for family in found.values() if family))
    for name, family in found.items():
        if family is None:
            wrong.append(f"nobody shows {name}")
            continue
        counted = re.search(rf"\b(rate|increase)\({name}\b", expression)
        if bool(counted) != (family.kind in ("counter", "histogram")):
            wrong.append(f"{name} is a {family.kind}")
    for name, inside in re.findall(r"(glimpse_\w+)\{([^}]*)\}", expression):
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', inside):
            there = {dict(pairs).get(label) for _, pairs in found[name].samples} if found[name] else set()
            if not value.startswith("$") and value not in there:
                wrong.append(f'{name} has no {label}="{value}"')
            if label not in labels:
                wrong.append(f"{name} has no label {label}")
    for listed in re.findall(r"\bby \(([^)]*)\)", expression):
        wrong += [f"no label {label}" for label in listed.split(", ") if label not in labels]
    return wrong


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return ""


@pytest.fixture
def running(settings_for, tmp_path):
    """A join, a learner and a lag exporter, as processes."""
    ports = {"web_port": free_port(), "join_web_port": free_port()}
    times = {"wait_s": 0.5, "lateness_s": 60.0, "publish_every_s": 0.2, "timestamps": "LogAppendTime"}
    settings = settings_for(buckets=BUCKETS, partitions=2, **times, **ports)
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


def test_every_expression_is_about_what_running_jobs_show(running):
    settings, jobs, ports = running
    topics, random = Topics.of(settings), np.random.default_rng(1)
    ranker, shown, give_up_at = None, {}, time.monotonic() + 90
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    with EventWriter(settings) as events:
        while True:
            write_some(events, producer, topics, random)
            pages = [page(port) for port in ports]
            if ranker is None:
                with suppress(SnapshotMissing):
                    ranker = Ranker.from_kafka(settings, bucket="main")
            if ranker is not None:
                ranker.rank(random.uniform(-0.5, 0.5, (5, 4)), size=3)
                pages.append(ranker.metrics())
            shown = {name: family for text in pages if text for name, family in parse(text).items()}
            assert len(shown) == sum(len(parse(text)) for text in pages if text), "two jobs show the same name"
            wrong = {where: found for where, one in expressions().items() if (found := faults(one, shown))}
            if not wrong:
                break
            jobs.check()
            assert time.monotonic() < give_up_at, wrong
            time.sleep(0.5)
        with LagReader(settings) as reader:
            report = reader.read()
    ranker.close()
    producer.close()
    assert {group.name: (group.members, group.verdict) for group in report.groups} == {
        "join": (1, Verdict.OK),
        "learn": (1, Verdict.OK),
    }
    assert all(one.position is None or one.position >= one.committed for one in report.groups[0].partitions)
    delays = shown["glimpse_join_click_delay_seconds"].samples
    assert delays["_count", ()] > 0
    refused = shown["glimpse_join_dead_letters_total"].samples
    assert {dict(labels)["log"] for _, labels in refused} == {"clicks"}


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
