"""Impressions and clicks joined by id as the documentation of three frameworks shows it: state, and no guarantee.

Each is a script of its own that notes in a file what it took from 10% to 90% of its impressions. Some want other
versions of our own libraries, so they are looked for in `.venv/peers` too, which `make bench` fills.
"""

import os
import subprocess
import sys
from pathlib import Path

from jobs import wait_until
from plain_loops import Measured

from streams.settings import Settings, Topics

ROOT = Path(__file__).parent.parent.parent
PYTHONS = (sys.executable, str(ROOT / ".venv" / "peers" / "bin" / "python"))
COUNTED = """
import time
from pathlib import Path
import psutil
from schemas.codec import decode
from schemas.records import Click, Impression
LISTS, IMPRESSIONS, CLICKS, BROKER, PREFIX, PARTITIONS = {given}
count, first = 0, (0.0, 0.0)
def counted():
    global count, first
    count += 1
    if count == LISTS // 10:
        first = time.monotonic(), time.process_time()
    if count == LISTS * 9 // 10:
        lists, seconds, cpu_s = LISTS * 8 // 10, time.monotonic() - first[0], time.process_time() - first[1]
        figures = lists / seconds, cpu_s / lists * 1e5, psutil.Process().memory_info().rss / 1e6
        Path("unfinished").write_text(" ".join(map(str, figures)))
        Path("unfinished").rename("took")
"""
FAUST = """
import faust
app = faust.App("plain-" + PREFIX, broker="kafka://" + BROKER, store="memory://", topic_partitions=PARTITIONS,
                value_serializer="raw", key_serializer="raw", consumer_auto_offset_reset="earliest", web_enabled=False)
shown = app.Table("shown", default=bytes, partitions=PARTITIONS, key_type=bytes, value_type=bytes)
@app.agent(app.topic(IMPRESSIONS, value_type=bytes))
async def impressions(stream):
    async for value in stream:
        shown[decode(value, Impression).impression_id.encode()] = value
        counted()
@app.agent(app.topic(CLICKS, value_type=bytes))
async def clicks(stream):
    async for value in stream:
        shown.get(decode(value, Click).impression_id.encode())
"""
BYTEWAX = """
import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.connectors.stdio import StdOutSink
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
def read(message):
    if message.topic == IMPRESSIONS:
        counted()
    event = decode(message.value, Impression if message.topic == IMPRESSIONS else Click)
    return event.impression_id, event
def joined(shown, event):
    return (event, None) if isinstance(event, Impression) else (shown, (shown, event))
flow = Dataflow("join")
events = op.input("events", flow, KafkaSource([BROKER], [IMPRESSIONS, CLICKS], tail=False, batch_size=4000))
pairs = op.stateful_map("join", op.map("read", events, read), joined)
op.output("out", op.filter("nothing", pairs, lambda pair: False), StdOutSink())
run_main(flow)
"""
QUIX = """
from quixstreams import Application
app = Application(BROKER, consumer_group=PREFIX + "quix", auto_offset_reset="earliest", loglevel="ERROR")
def show(value, state):
    state.set_bytes(decode(value, Impression).impression_id, value)
    counted()
def click(value, state):
    state.get_bytes(decode(value, Click).impression_id, None)
for name, take in ((IMPRESSIONS, show), (CLICKS, click)):
    topic = app.topic(name, key_deserializer="bytes", value_deserializer="bytes")
    app.dataframe(topic).update(take, stateful=True)
app.run()
"""
SCRIPTS = {"faust": FAUST, "bytewax": BYTEWAX, "quixstreams": QUIX}
COMMANDS = {"faust": ["-m", "faust", "-A", "peer", "worker", "--without-web", "-l", "error"]}


def python_with(framework: str) -> str | None:
    """Return the Python in which a framework is installed, if there is one."""
    for python in filter(os.path.exists, PYTHONS):
        if subprocess.call([python, "-c", f"import {framework}"], stderr=subprocess.DEVNULL) == 0:
            return python
    return None


def run_framework(python: str, name: str, settings: Settings, folder: Path, lists: int) -> Measured:
    """Return what a framework takes for logs of so many lists."""
    topics = Topics.of(settings)
    given = lists, topics.impressions, topics.clicks, settings.kafka, settings.topic_prefix, settings.partitions
    (folder / "peer.py").write_text(COUNTED.format(given=given) + SCRIPTS[name])
    command = [python, *COMMANDS.get(name, ["peer.py"])]
    with (folder / "log").open("wb") as log:
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environ)
    try:
        wait_until((folder / "took").exists, timeout_s=180)
        return Measured(*map(float, (folder / "took").read_text().split()))
    finally:
        process.kill()
        process.wait()
