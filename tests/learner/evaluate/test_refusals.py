"""Bad input gets one clear line."""

import numpy as np
import pytest
from first_position import first_position_check

from learner.evaluate import (
    Interval,
    LoggedLists,
    NoSupport,
    Policy,
    cascade_dr,
    ctr_set,
    ctr_sum,
    ips,
    ubm_ips,
    ubm_ips_sequential,
)

LOG = LoggedLists.of([[1, 2], [2, 1]], [[1, 0], [0, 0]])
POLICY = Policy.of([[1, 2]])
ONES = np.tril(np.ones((2, 2)))
TWO = Policy.of([[1, 2], [2, 1]], contexts=[0, 0], chances=[0.5, 0.5])

CASES = {
    "no lists": (
        lambda: LoggedLists.of(np.empty((0, 2), dtype=int), np.empty((0, 2))),
        r"at least one list .* shape \(0, 2\)",
    ),
    "ids that are words": (lambda: LoggedLists.of([["a", "b"]], [[0, 0]]), r"items must be whole numbers"),
    "items below 0": (
        lambda: LoggedLists.of([[1, -2]], [[0, 0]]),
        r"items\[0, 1\] is -2; an item is a number of at least 0",
    ),
    "an empty list": (
        lambda: LoggedLists.of([[-1, -1]], [[0, 0]]),
        r"items\[0, 0\] is -1; a list has at least one item",
    ),
    "a hole": (lambda: LoggedLists.of([[1, -1, 2]], [[0, 0, 0]]), r"items\[0, 1\] is 2; after the end of a list"),
    "other rewards": (
        lambda: LoggedLists.of([[1, 2]], [[0]]),
        r"rewards must have the shape of items, \(1, 2\), got \(1, 1\)",
    ),
    "a negative reward": (
        lambda: LoggedLists.of([[1, 2]], [[0, -1]]),
        r"rewards\[0, 1\] is -1.0; a reward is a finite number",
    ),
    "a reward for nothing": (lambda: LoggedLists.of([[1, -1]], [[0, 1]]), r"rewards\[0, 1\] is 1.0; there is no item"),
    "contexts": (lambda: LoggedLists.of([[1]], [[0]], [0.5]), r"contexts must be 1 whole numbers, got float64"),
    "a logged chance of 0": (
        lambda: LoggedLists.of([[1]], [[0]], chances=[[0.0]]),
        r"chances\[0, 0\] is 0.0; what was logged",
    ),
    "uneven chances": (lambda: Policy.of([[1], [2]], [7, 7], [0.5, 0.4]), r"in context 7 add up to 0.9, not to 1"),
    "a chance of 2": (lambda: Policy.of([[1]], [0], [2.0]), r"chances\[0\] is 2.0; a chance lies in \[0, 1\]"),
    "few chances": (lambda: Policy.of([[1], [2]], [0, 0], [1.0]), r"chances must be 2 numbers, one per list"),
    "a silent policy": (lambda: ips(LOG, Policy.of([[1]], [5])), r"list 0 was logged in context 0, for which a policy"),
    "impossible logs": (
        lambda: ips(LOG, POLICY, logging=POLICY),
        r"list 1, \[2, 1\], was logged, but the logging policy never shows it so",
    ),
    "impossible items": (
        lambda: ubm_ips(LOG, POLICY, examination=ONES, attractiveness=np.ones(6), logging=Policy.of([[1, 5]])),
        r"list 0, \[1, 2\], was logged, but the logging policy never shows it so",
    ),
    "no support": (lambda: ips(LOG, Policy.of([[8, 9]])), r"the log shows nothing of what the policy shows"),
    "no support of items": (
        lambda: ubm_ips(LOG, Policy.of([[8, 9]]), examination=ONES),
        r"the log shows nothing of what the policy shows, in UBM-IPS's terms",
    ),
    "what to weigh": (lambda: ips(LOG, POLICY, over="pairs"), r"over must be one of lists, positions, prefixes; got"),
    "a metric": (lambda: ips(LOG, POLICY, metric="mean"), r"metric must be 'sum' or 'set', got 'mean'"),
    "sets by positions": (lambda: ips(LOG, POLICY, over="positions", metric="set"), r"cannot tell CTR_set"),
    "clip": (lambda: ips(LOG, POLICY, clip=0), r"clip must be a weight above 0, or None, got 0"),
    "a short table": (
        lambda: ubm_ips(LOG, POLICY, examination=[[1.0]]),
        r"covers 1 positions, but there are lists of 2",
    ),
    "logging without taste": (
        lambda: ubm_ips(LOG, POLICY, examination=ONES, logging=TWO),
        r"a known logging policy takes the attractiveness too",
    ),
    "taste": (lambda: ubm_ips(LOG, POLICY, examination=ONES, attractiveness=[0.5, 1.5, 0]), r"chances in \[0, 1\]"),
    "taste of few": (
        lambda: ubm_ips(LOG, POLICY, examination=ONES, attractiveness=[0.5, 0.5]),
        r"attractiveness has shape \(2,\), but there are items up to 2",
    ),
    "a guess": (
        lambda: cascade_dr(LOG, POLICY, predicted=[[1.0]]),
        r"predicted must be finite numbers of shape \(1, 2\)",
    ),
    "level": (lambda: Interval(level=95), r"level must lie between 0 and 1, got 95"),
    "draws": (lambda: Interval(draws=3), r"draws must be 0 for no resampling, or at least 20, got 3"),
    "coins without draws": (
        lambda: ubm_ips_sequential(LOG, POLICY, examination=ONES, interval=Interval()),
        r"the sequential form has no asymptotic interval",
    ),
    "one position": (
        lambda: first_position_check(LoggedLists.of([[1]], [[0]]), examination=[[1.0]]),
        r"the lists have one position",
    ),
    "no item twice": (
        lambda: first_position_check(LoggedLists.of([[1, 2]], [[0, 0]]), examination=ONES),
        r"no item stands first in one list and lower in another",
    ),
    "no rates": (lambda: ctr_sum([]), r"rewards must be \(lists, positions\) with at least one list, got shape \(0,\)"),
    "rates of one list": (lambda: ctr_set([1, 0]), r"rewards must be \(lists, positions\)"),
}


@pytest.mark.parametrize("call, words", CASES.values(), ids=CASES)
def test_what_is_wrong_is_said_in_one_line(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_policy_without_support_is_told_apart_from_a_mistake():
    with pytest.raises(NoSupport):
        ips(LOG, Policy.of([[8, 9]]))
