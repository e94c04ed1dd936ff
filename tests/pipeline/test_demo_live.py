"""The demo on Kafka: the same loop through real join and learn processes."""

import os
import signal
import subprocess
from dataclasses import replace
from functools import partial

from jobs import GLIMPSE, wait_until, write_toml
from kafka import KafkaConsumer, TopicPartition

from streams.broker import admin
from streams.demo import crowd, play, run_demo
from streams.demo.live import clean_up
from streams.settings import Settings


def demo_topics(kafka: str) -> list[str]:
    with admin(Settings(kafka=kafka)) as client:
        return [name for name in client.list_topics() if name.startswith("demo-")]


def plays(kafka: str) -> bool:
    """Whether a demo has written its first lists."""
    shown = [TopicPartition(name, 0) for name in demo_topics(kafka) if name.endswith("-impressions")]
    consumer = KafkaConsumer(bootstrap_servers=kafka)
    try:
        return any(consumer.end_offsets(shown).values()) if shown else False
    finally:
        consumer.close()


def test_the_demo_runs_on_the_real_jobs(settings_for, tmp_path, capsys, monkeypatch):
    """With few and quick users; tests/soak plays it as it is."""
    monkeypatch.setattr(play, "LIVE", replace(play.LIVE, lists_per_s=100))
    monkeypatch.setattr(crowd, "CLICK_DELAY_MS", 300.0)
    settings = replace(settings_for(), timestamps="LogAppendTime")
    scores = run_demo(lists=1000, seed=1, out=tmp_path, kafka=settings)
    printed = capsys.readouterr().out
    assert sum(score.lists for score in scores) == 1000
    assert "1,000 lists" in printed.split("impressions =")[1]
    assert all(score.distance < 1 for score in scores if score.distance is not None)
    assert (tmp_path / "report.html").exists()
    assert demo_topics(settings.kafka) == [], "it cleans up after itself"


def test_ctrl_c_leaves_no_topics(kafka, tmp_path):
    toml = write_toml(Settings(kafka=kafka), tmp_path / "glimpse.toml")
    command = [GLIMPSE, "demo", "--kafka", "--config", str(toml), "--out", str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a suite in the background has it ignored
    ) as demo:
        try:
            wait_until(lambda: plays(kafka), timeout_s=90)
            os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
            assert demo.wait(60) != 0
            wait_until(lambda: demo_topics(kafka) == [], timeout_s=60)  # a broker deletes in its own time
        finally:
            demo.kill()


def test_topics_that_cannot_be_deleted_are_named(capsys):
    clean_up(Settings(kafka="127.0.0.1:1", topic_prefix="demo-1-"))
    assert "kafka-topics.sh --bootstrap-server 127.0.0.1:1 --delete --topic 'demo-1-.*'" in capsys.readouterr().err
