"""Events that wait for Kafka."""

import time
import uuid

from jobs import wait_until
from paused import paused
from proxy import PRODUCE, LossyProxy
from ranking import logged

from schemas.records import Click
from streams.broker import create_topics, partition_of
from streams.events.job import EventQueue
from streams.events.job import queue as queue_of_events
from streams.local.server import free_port
from streams.settings import Bucket, Settings


def test_events_that_are_sent_again_keep_their_order(kafka):
    """The first event waits for its topic, as on a busy machine, and the others come while it does."""
    settings = Settings(
        kafka=kafka,
        buckets={"main": Bucket("main")},
        topic_prefix=f"t{uuid.uuid4().hex[:12]}-",
        timestamps="CreateTime",
    )
    queue = EventQueue(settings)
    positions = list(range(1, 21))
    for position in positions:
        queue.offer([Click("i", "s", position, clicked_at_ms=5)])
        time.sleep(0.05)
    assert queue.delivered == 0
    create_topics(settings)
    _, clicks = logged(settings, wanted=len(positions), within_s=30, different=True)
    queue.close()
    assert [click.position for click in clicks] == positions
    assert (queue.delivered, queue.lost) == (len(positions), 0)


def offer_apart(queue):
    """Offer an event, and 2 s later others: one of its session, and two for another partition."""
    assert partition_of(b"a", queue.settings.partitions) != partition_of(b"c", queue.settings.partitions)
    queue.offer([Click("i", "a", 2, clicked_at_ms=5)])
    time.sleep(2)
    queue.offer(
        [Click("i", session, position, clicked_at_ms=5) for session, position in (("c", 2), ("a", 3), ("c", 3))]
    )


def arrived_in_order(settings):
    """Return whether each session's events are there in order; any may be there more than once."""
    _, clicks = logged(settings, wanted=6, different=True)
    orders = {session: list(dict.fromkeys(c.position for c in clicks if c.session_id == session)) for session in "ac"}
    return orders == {"a": [1, 2, 3], "c": [1, 2, 3]}


def connected_queue(settings):
    """Return a queue that has delivered an event of each session."""
    queue = EventQueue(settings)
    queue.offer([Click("i", session, 1, clicked_at_ms=5) for session in "ac"])
    wait_until(lambda: queue.delivered == 2, timeout_s=60)
    return queue


def test_events_that_expire_one_after_the_other_are_all_sent_again(new_broker, settings_for, monkeypatch):
    monkeypatch.setattr(queue_of_events, "GIVE_UP_MS", 4000)
    broker = new_broker()
    settings = settings_for(kafka=broker.bootstrap)
    queue = connected_queue(settings)
    broker.kill()
    offer_apart(queue)
    wait_until(lambda: not queue.connected, timeout_s=60)
    broker.start()
    wait_until(lambda: queue.delivered == 6, timeout_s=60)
    assert arrived_in_order(settings)
    queue.close()
    assert queue.lost == 0


def test_nothing_leaves_a_producer_after_an_earlier_event_of_it_failed(new_broker, settings_for, monkeypatch, caplog):
    """The broker never sees what is sent; from the first failure on it does."""
    monkeypatch.setattr(queue_of_events, "GIVE_UP_MS", 4000)
    proxy = LossyProxy(target=free_port())
    new_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}, port=proxy.target)
    settings = settings_for(kafka=f"127.0.0.1:{proxy.port}")
    queue = connected_queue(settings)
    proxy.to_lose["request", PRODUCE] = 1 << 30
    offer_apart(queue)
    wait_until(lambda: "events wait for Kafka" in caplog.text, timeout_s=60)  # connected again soon after
    proxy.to_lose.clear()
    wait_until(lambda: queue.delivered == 6, timeout_s=60)
    assert arrived_in_order(settings)
    queue.close()
    proxy.close()


def test_what_is_under_way_when_a_queue_closes_counts_as_lost(new_broker, settings_for):
    broker = new_broker()
    settings = settings_for(kafka=broker.bootstrap)
    queue = connected_queue(settings)
    with paused(broker):
        queue.offer([Click("i", "a", 2, clicked_at_ms=5)])
        queue.close(timeout_s=2)
    assert (queue.delivered, queue.lost) == (2, 1)
