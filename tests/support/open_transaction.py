"""A service that writes in a transaction and lets it stay open, while others write on."""

import time

from jobs import wait_until
from joined import BUCKETS, Net, commits, joining, lists_wanted
from msgspec.structs import replace
from poison import good
from traffic import Event

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.broker import producer, transactional
from streams.settings import Topics


def hold_transaction(settings_for, *, open_s: float) -> None:
    """Show lists in a transaction that is open for ``open_s``, and click on them before and after its end.

    On live topics: its records bear the stamps of when they were written, and are read after later ones of other
    partitions. No list and no click of it is too late.
    """
    times = {"wait_s": 1.0, "lateness_s": 1.0, "future_s": 1.0}
    settings = settings_for(buckets=BUCKETS, **times, partitions=2, timestamps="LogAppendTime")
    topics, net = Topics.of(settings), Net(settings)
    service, others = transactional(settings, "service", transaction_timeout_ms=300_000), producer(settings)
    lists, taps = [], []

    def tell(log, topic, event, *, by) -> None:
        by.send(topic, encode(event), key=event.session_id.encode())
        log.append(Event(0, event))

    def show(number: int, *, by) -> None:
        tell(lists, topics.impressions, shown_now(number), by=by)

    def tap(number: int, position: int, *, by) -> None:
        session = f"s{number}"
        tell(taps, topics.clicks, Click(f"i{number}", session, position, int(time.time() * 1000)), by=by)

    service.init_transactions()
    with joining(settings) as job:
        wait_until(lambda: len(commits(settings)) == settings.partitions, timeout_s=60)
        service.begin_transaction()
        for number in range(20):
            show(number, by=service)
            tap(number, 2, by=others)
        service.flush(10)
        end = time.monotonic() + open_s
        number = 20
        while time.monotonic() < end:  # traffic of others goes on, in the same partitions too
            show(number, by=others)
            tap(number, 3, by=others)
            number += 1
            time.sleep(0.25)
        service.commit_transaction()
        others.flush(10)
        wait_until(lambda: net.now() == lists_wanted(lists, taps), timeout_s=60)
        ledgers = [commit.ledger for commit in commits(settings)]
        assert job.watch.ready() is None
    assert sum(ledger.too_late + ledger.late + ledger.dead_clicks for ledger in ledgers) == 0
    for one in (service, others):
        one.close(5)
    net.close()


def shown_now(number: int) -> Impression:
    """Return a list of now."""
    return replace(good(int(time.time() * 1000)), impression_id=f"i{number}", session_id=f"s{number}")
