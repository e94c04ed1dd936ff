"""Commits of a join whose request or answer is lost, on real Kafka."""

import logging
from collections import Counter
from collections.abc import Sequence

from jobs import wait_until
from joined import BUCKETS, Net, commits, events, joining, lists_wanted, load
from proxy import END_TRANSACTION, LossyProxy

from streams.local.server import free_port


def lose_commits(new_broker, settings_for, caplog, *, kafka_client: str, losses: Sequence[str]) -> None:
    """Lose each in turn while lists come; nothing may be reread, and nothing be written twice."""
    proxy = LossyProxy(target=free_port())
    new_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}, port=proxy.target)
    times = {"wait_s": 3.0, "lateness_s": 17.0, "future_s": 5.0}
    settings = settings_for(
        kafka=f"127.0.0.1:{proxy.port}", buckets=BUCKETS, partitions=2, kafka_client=kafka_client, **times
    )
    caplog.set_level(logging.INFO, logger="streams.join")
    net, first, wanted, told = Net(settings), events(300, seed=1), {}, Counter()
    with joining(settings) as job:
        load(settings, *first)
        wanted.update(lists_wanted(*first))
        wait_until(lambda: net.now() == wanted, timeout_s=60)
        for seed, lost in enumerate(losses, start=2):
            proxy.to_lose[lost, END_TRANSACTION] = 1
            told[lost, END_TRANSACTION] += 1
            more = events(300, seed=seed, old_s=3_600 - 100 * seed)
            load(settings, *more)
            wanted.update(lists_wanted(*more))
            wait_until(lambda: net.now() == wanted, timeout_s=90)
            assert proxy.lost == told
            assert [owner.tries for owner in job.watch.joined.values()] == [0, 0]
    opened = [record.getMessage() for record in caplog.records if "goes on from" in record.getMessage()]
    assert len(opened) == 2, "each partition was opened once: nothing was reread"
    assert all(count == 1 for count in net.now().values())
    assert all(commit.ledger.balanced for commit in commits(settings))
    net.close()
    proxy.close()
