"""A consumer that can be told to misbehave: one partition, real commits, in a process of its own.

Started as `python lag_worker.py BOOTSTRAP GROUP TOPIC PARTITION`; a number on stdin is how many records a second it
reads from then on, `reset` sends it to the group's committed offset, and it commits every 0.2 s whatever happens,
unless told to `hold`.
"""

import sys
import time
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Thread

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

COMMIT_S = 0.2


def main(bootstrap: str, group: str, topic: str, partition: str) -> None:
    """Read and commit until stdin ends."""
    said: SimpleQueue[str] = SimpleQueue()
    Thread(target=lambda: [said.put(line.strip()) for line in chain(sys.stdin, ["end"])], daemon=True).start()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    place = TopicPartition(topic, int(partition))
    consumer.assign([place])
    rate, hold, next_commit = 1e9, False, 0.0
    read, since = 0, time.monotonic()
    position = consumer.position(place)
    print("ready", flush=True)
    while True:
        try:
            word = said.get_nowait()
        except Empty:
            word = ""
        if word == "end":
            return
        if word == "hold":
            hold = True
        elif word == "reset":
            hold, rate = False, 1e9
            position = consumer.committed(place) or 0
            consumer.seek(place, position)
        elif word:
            hold, rate, read, since = False, float(word), 0, time.monotonic()
        due = min(500, int(rate * (time.monotonic() - since)) - read) if not hold else 0
        for records in (consumer.poll(timeout_ms=20, max_records=due) if due > 0 else {}).values():
            read += len(records)
            position = records[-1].offset + 1
        if not hold and time.monotonic() >= next_commit:
            consumer.commit({place: OffsetAndMetadata(position, "", -1)})
            next_commit = time.monotonic() + COMMIT_S
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
