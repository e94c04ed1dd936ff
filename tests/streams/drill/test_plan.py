"""The plan of a drill and its verdicts, without any server."""

import pytest

from streams.drill import SERVERS, WORKERS, Fault, Outcome, plan_faults, possible_faults
from streams.drill.faults import DrillError
from streams.drill.job.breakable import own_buckets


def test_every_kind_comes_once_before_any_comes_again():
    kinds = WORKERS + SERVERS
    plan = plan_faults(kinds, 20, load_s=10, seed=3)
    assert sorted(fault.kind for fault in plan[:8]) == sorted(fault.kind for fault in plan[8:16]) == sorted(kinds)
    assert plan == plan_faults(kinds, 20, load_s=10, seed=3)
    assert plan != plan_faults(kinds, 20, load_s=10, seed=4)
    assert all(3 <= fault.after_s <= 7 for fault in plan)
    assert all(fault.for_s >= 12 for fault in plan if fault.parts[0] == "freeze")


def test_only_its_own_servers_may_be_broken():
    assert possible_faults(["stop-kafka"], own_servers=True) == ["stop-kafka"]
    with pytest.raises(DrillError, match="no fault 'stop-kafka' here; possible are kill-join"):
        possible_faults(["stop-kafka"], own_servers=False)


STRUCK = Fault("kill-join", 1.0, 1.0)
VERDICTS = {
    "the same": (Outcome(STRUCK, "join 1", 5, 2.0, 9, ()), True, "same bits"),
    "other bits": (Outcome(STRUCK, "join 1", 5, 2.0, 9, ("ubm has all lists and other bits",)), False, "other bits"),
    "nothing hit": (Outcome(STRUCK, "join 1", 0, 2.0, 9, ()), False, "nothing was pending"),
    "never back": (Outcome(STRUCK, "join 1", 5, None, 9, ("ubm has 1 of 2 lists",)), False, "1 of 2"),
}


@pytest.mark.parametrize("outcome, good, said", VERDICTS.values(), ids=VERDICTS)
def test_only_pending_work_that_gave_the_same_bits_is_good(outcome, good, said):
    assert (outcome.good, said in outcome.verdict) == (good, True)


def test_its_own_buckets_have_a_state_of_every_kind():
    assert {bucket.algorithm for bucket in own_buckets().values()} == {"ubm-linucb", "c2ucb", "pbm-ucb"}
