"""The owner of a partition: the order in which its logs are joined, and what health pages read of it meanwhile."""

from join_events import BUCKET, FUTURE, LATENESS, T0, WAIT
from kafka import TopicPartition

from streams.events import Acceptance, EventReader
from streams.join import Commit, SessionJoin
from streams.join.job.owner import JoinOwner
from streams.join.job.watch import JoinWatch
from streams.logs import LogRecord
from streams.settings import LogPair


def test_one_stamp_far_ahead_holds_its_log_back_no_longer_than_the_other_records_of_its_time():
    join = SessionJoin(
        Acceptance({"main": BUCKET}, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS, reader=EventReader()
    )
    inputs = LogPair(TopicPartition("impressions", 0), TopicPartition("clicks", 0))
    owner = JoinOwner(inputs, now=lambda: 0.0)
    owner.open(join, Commit.beginning())
    joined = []
    for name, log in owner.logs._asdict().items():
        log.end = 1_000
        add = log._add
        log._add = lambda records, to, name=name, add=add: (
            joined.extend((name, r.offset) for r in records),
            add(records, to),
        )
        for offset in range(20):
            ahead = 10**12 if name == "impressions" and offset == 5 else 0
            log.fetched([LogRecord(offset, T0 + offset * 1_000 + ahead, b"%d" % offset, b"no event")])
    owner.join_read(1 << 30)
    assert len(joined) == 40
    places = {which: place for place, which in enumerate(joined)}
    for offset in range(20):
        assert abs(places["impressions", offset] - places["clicks", offset]) <= 5  # lists go up to 2 s ahead of clicks


class HeldOnce:
    """An attribute that is empty once it was read, as if the job's thread had dropped it just then."""

    def __set_name__(self, owner, name):
        self._name = f"held{name}"

    def __get__(self, instance, kind=None):
        held = instance.__dict__[self._name]
        instance.__dict__[self._name] = "" if isinstance(held, str) else None
        return held

    def __set__(self, instance, value):
        instance.__dict__[self._name] = value


class Dropped(JoinOwner):
    _join, _logs, refused = HeldOnce(), HeldOnce(), HeldOnce()


def test_readyz_may_ask_while_the_job_drops_what_a_partition_has():
    join = SessionJoin(
        Acceptance({"main": BUCKET}, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS, reader=EventReader()
    )
    owner = Dropped(LogPair(TopicPartition("impressions", 0), TopicPartition("clicks", 0)), now=lambda: 0.0)
    watch = JoinWatch({0: owner})
    watch.assigned = True
    owner.open(join, Commit.beginning())
    join.rebuilding = False
    assert watch.ready() is None
    owner.open(join, Commit.beginning())
    join.rebuilding = True
    assert watch.ready() == "partitions [0] are being rebuilt"
    owner.refuse("why")
    assert watch.ready() == "refused: why"
    assert watch.ready() is None
