"""Commands against real servers, and against servers that are not there."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from streams.events.job import EventWriter
from streams.local.server import free_port
from streams.settings import Settings, Topics

TOML = """
kafka = "{kafka}"
topic_prefix = "{prefix}"
partitions = 2
web_port = 0
join_web_port = 0
wait_s = 1
lateness_s = 5
[buckets.main]
algorithm = "c2ucb"
dim = 4
positions = 5
"""


@pytest.fixture
def start(tmp_path):
    """Starts commands in a folder with a glimpse.toml."""
    running = []

    def command(*words, kafka, prefix="cmd-", **environ):
        (tmp_path / "glimpse.toml").write_text(TOML.format(kafka=kafka, prefix=prefix))
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GLIMPSE_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "streams.cli", *words],
            cwd=tmp_path,
            env=clean | {"PYTHONPATH": str(Path(__file__).parents[2])} | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield command
    for process in running:
        process.kill()
        process.wait()


def ends(process, timeout_s=30):
    out, err = process.communicate(timeout=timeout_s)
    return process.returncode, out, err


def test_topics_are_made_and_filled(start, kafka):
    prefix = "cmd-"
    code, out, err = ends(start("topics", kafka=kafka, prefix=prefix))
    assert (code, len(out.splitlines())) == (0, 6)
    assert "created cmd-impressions" in err
    code, _, err = ends(start("topics", "--check", kafka=kafka, prefix=prefix))
    assert (code, err) == (0, "")
    code, _, err = ends(start("produce", "--lists", "50", kafka=kafka, prefix=prefix))
    assert code == 0
    assert "50 impressions and" in err
    names = Topics.of(Settings(topic_prefix=prefix))
    consumer = KafkaConsumer(bootstrap_servers=kafka)
    ends_at = consumer.end_offsets([TopicPartition(names.impressions, number) for number in range(2)])
    consumer.close()
    assert sum(ends_at.values()) == 50


def test_produce_leaves_events_of_other_programs_alone_unless_told(start, kafka):
    assert ends(start("topics", kafka=kafka, prefix="own-"))[0] == 0
    for _ in range(2):  # the second time among its own
        code, _, err = ends(start("produce", "--lists", "5", kafka=kafka, prefix="own-"))
        assert (code, err.splitlines()[0]) == (0, f"writes to Kafka at {kafka}: own-impressions, own-clicks")
    with EventWriter(Settings(kafka=kafka, topic_prefix="own-")) as service:
        service.click("i", 1, session_id="s")
    code, _, err = ends(start("produce", "--lists", "5", kafka=kafka, prefix="own-"))
    assert (code, "own-clicks partition" in err, "--yes" in err) == (1, True, True)
    assert ends(start("produce", "--lists", "5", "--yes", kafka=kafka, prefix="own-"))[0] == 0


def test_a_token_of_a_file_is_not_printed(start, kafka, tmp_path):
    (tmp_path / "token").write_text("hunter2")
    page = start("dashboard", "--port", "0", "--token-file", "token", kafka=kafka)
    said = page.stderr.readline()
    assert (said.startswith("open http://127.0.0.1:"), "token=TOKEN" in said, "hunter2" in said) == (True, True, False)


def test_a_bad_line_of_a_file_is_named(start, kafka, tmp_path):
    (tmp_path / "events.jsonl").write_text('{"type": "click"}\n')
    code, _, err = ends(start("produce", "events.jsonl", kafka=kafka))
    assert code == 1
    assert "glimpse: events.jsonl line 1: click without" in err
    assert "Traceback" not in err


def one_line(name, result):
    code, _, err = result
    assert code not in (0, None), name
    assert "Traceback" not in err, f"{name}: {err}"
    lines = [line for line in err.splitlines() if " INFO " not in line and not line.startswith("writes to Kafka at ")]
    assert len(lines) == 1, f"{name}: {err}"
    return lines[0]


COMMANDS = {
    "the jobs": (["join", "--from", "earliest"], ["learn"]),
    "the rest": (["topics"], ["rank", "main", "c.jsonl"]),
}


@pytest.mark.quiet
@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
def test_an_unreachable_broker_is_one_line_within_40_s(start, tmp_path, commands):
    (tmp_path / "c.jsonl").write_text('{"item": 1, "context": [0, 0, 0, 0]}\n')
    nowhere = f"127.0.0.1:{free_port()}"
    started = time.monotonic()
    running = {words[0]: start(*words, kafka=nowhere) for words in commands}
    results = {name: ends(process) for name, process in running.items()}
    assert time.monotonic() - started < 40  # 6 s of waiting, and imports next to other work
    for name, result in results.items():
        assert nowhere in one_line(name, result)


def test_missing_topics_are_one_line(start, kafka):
    running = {name: start(name, kafka=kafka, prefix="none-") for name in ("join", "learn")}
    for name, process in running.items():
        line = one_line(name, ends(process, 60))
        assert "none-" in line
        assert "glimpse topics" in line


def test_mismatched_partitions_are_one_line(start, kafka):
    assert ends(start("topics", kafka=kafka, prefix="odd-"))[0] == 0
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.create_partitions({"odd-clicks": 3})
    admin.wait_for_topics(["odd-clicks"])
    admin.close()
    line = one_line("join", ends(start("join", "--from", "earliest", kafka=kafka, prefix="odd-"), 60))
    assert "odd-impressions has 2 partitions and odd-clicks has 3" in line
    code, _, err = ends(start("topics", kafka=kafka, prefix="odd-"), 60)
    assert code == 1
    assert "wrong: odd-impressions has 2 partitions" in err


def test_a_worker_joins_and_learns_and_ends_well_on_sigterm(start, kafka, redis_url, tmp_path):
    (tmp_path / "candidates.jsonl").write_text('{"item": 1, "context": [0.5, 0, 0, 0]}\n')
    assert ends(start("topics", kafka=kafka, prefix="both-"))[0] == 0
    worker = start("worker", "--from", "earliest", kafka=kafka, prefix="both-", GLIMPSE_REDIS=redis_url)
    assert ends(start("produce", "--lists", "200", kafka=kafka, prefix="both-"))[0] == 0
    deadline = time.monotonic() + 60
    for source in ("kafka", redis_url):
        rank = ("rank", "main", "candidates.jsonl", "--source", source)
        while (result := ends(start(*rank, kafka=kafka, prefix="both-")))[0] != 0:
            assert time.monotonic() < deadline, result[2]
            assert worker.poll() is None, worker.stderr.read()
        assert result[1].startswith("1 ")
    worker.terminate()
    code, _, err = ends(worker, 15)
    assert (code, "Traceback" in err) == (0, False), err
