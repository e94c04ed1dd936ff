"""What the health of a learn worker says: ready is restored, alive is that offsets move while there is lag."""

from sample_batches import all_algorithms

from streams.learn import Log, PartitionLearner
from streams.learning.owner import PartitionOwner
from streams.learning.rounds import Learning, Place
from streams.learning.web import STUCK_S, LearnHealth
from streams.settings import Settings


async def no_seek(partition, offset):
    return 1


def worker(**changes):
    """A worker with partition 0, in whatever state, that no broker is needed for."""
    learning = Learning(Settings(buckets=all_algorithms()), seek=no_seek)
    place = Place(PartitionOwner(learning.store, 0), **changes)
    learning.places[0] = place
    return learning, place


def restored(place):
    place.owner.learner = PartitionLearner(all_algorithms(), Log("samples", "t"))
    place.sought = True


def test_ready_is_assigned_and_restored():
    learning, place = worker()
    assigned = [False]
    health = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: assigned[0])
    assert "not assigned" in health.ready()
    assigned[0] = True
    assert health.ready() == "samples partitions [0] are being restored"
    restored(place)
    assert health.ready() is None
    del learning.places[0]  # more workers than partitions: nothing to do is ready too
    assert health.ready() is None


def test_alive_is_that_offsets_move_while_there_is_lag():
    learning, place = worker()
    restored(place)
    now, lag = [0.0], [True]
    health = LearnHealth(learning, lagging=lambda number: lag[0], assigned=lambda: True, clock=lambda: now[0])
    assert health.live() is None
    now[0] = STUCK_S + 1
    assert "samples partitions [0] have lag" in health.live()
    place.owner.learner.next_offset += 1
    assert health.live() is None
    now[0] += STUCK_S - 1
    assert health.live() is None
    now[0] += 2
    assert health.live() is not None
    lag[0] = False
    assert health.live() is None


def test_metrics_are_there_from_the_start():
    learning, place = worker()
    health = LearnHealth(learning, lagging=lambda number: True, assigned=lambda: True)
    assert "glimpse_learn_rounds_total 0" in health.metrics()
    restored(place)
    assert 'glimpse_learn_next_offset{partition="0"} 0' in health.metrics()
