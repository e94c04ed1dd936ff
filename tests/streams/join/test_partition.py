"""The order in which a partition's two logs are joined."""

from join_events import BUCKET, FUTURE, LATENESS, T0, WAIT

from streams.events import Acceptance
from streams.join import Commit, SessionJoin
from streams.join.job.partition import PartitionJoin
from streams.logs import LogRecord


def test_one_stamp_far_ahead_holds_its_log_back_no_longer_than_the_other_records_of_its_time():
    join = SessionJoin(Acceptance({"main": BUCKET}, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS)
    partition = PartitionJoin(join, Commit.beginning(), now=lambda: 0.0)
    joined = []
    for name, log in zip(("impressions", "clicks"), partition.logs, strict=True):
        log.end = 1_000
        add = log._add
        log._add = lambda records, to, name=name, add=add: (
            joined.extend((name, r.offset) for r in records),
            add(records, to),
        )
        for offset in range(20):
            ahead = 10**12 if name == "impressions" and offset == 5 else 0
            log.fetched([LogRecord(offset, T0 + offset * 1_000 + ahead, b"%d" % offset, b"no event")])
    partition.feed(1 << 30)
    assert len(joined) == 40
    places = {which: place for place, which in enumerate(joined)}
    for offset in range(20):
        assert abs(places["impressions", offset] - places["clicks", offset]) <= 5  # lists go up to 2 s ahead of clicks
