"""Impressions and clicks joined by id as the documentation of three frameworks shows it: state, and no guarantee.

Each is a script of its own that notes in a file how many impressions a second it took between 10% and 90% of them.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from jobs import wait_until

from streams.settings import Settings, Topics

COUNTED = """
import time
from pathlib import Path
from schemas.codec import decode
from schemas.records import Click, Impression
LISTS, IMPRESSIONS, CLICKS, BROKER, PREFIX, PARTITIONS = {given}
count, first = 0, 0.0
def counted():
    global count, first
    count += 1
    if count == LISTS // 10:
        first = time.monotonic()
    if count == LISTS * 9 // 10:
        Path("rate").write_text(str(LISTS * 8 // 10 / (time.monotonic() - first)))
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


def framework_rate(name: str, settings: Settings, folder: Path, lists: int) -> float | None:
    """Return lists a second of a framework, or None where it is not installed."""
    if find_spec(name) is None:
        return None
    topics = Topics.of(settings)
    given = lists, topics.impressions, topics.clicks, settings.kafka, settings.topic_prefix, settings.partitions
    (folder / "peer.py").write_text(COUNTED.format(given=given) + SCRIPTS[name])
    command = [sys.executable, *COMMANDS.get(name, ["peer.py"])]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        wait_until((folder / "rate").exists, timeout_s=180)
        return float((folder / "rate").read_text())
    finally:
        process.kill()
        process.wait()
