"""The closed loop with a known truth: UBM-LinUCB and two buckets that draw by lot, and what compare says of them."""

import numpy as np
from compared_lists import batch_of

from learner import Samples, UbmLinUcb
from learner.simulate import World, browsing_table
from streams.compare import CompareChoice, ListSums, LostClicks, compare
from streams.events import EventReader

POSITIONS, DIM = 6, 6
NAMES = ("lot", "lot-too", "ubm-linucb")


def play(seed, *, minutes=60, lists=40):
    """Return the comparison with ``lot`` after a run, and the true CTR_sum of what each bucket has shown."""
    rng = np.random.default_rng(seed)
    table = browsing_table(POSITIONS)
    world = World.random(rng, dim=DIM, examination=table, items=300, candidates=30)
    model = UbmLinUcb(dim=DIM, examination=table)
    sums, earned = ListSums(), dict.fromkeys(NAMES, 0.0)
    for minute in range(minutes):
        for number, name in enumerate(NAMES):
            _, contexts = world.visits(rng, lists)
            value = contexts @ model.theta if name == "ubm-linucb" and minute else rng.random(contexts.shape[:2])
            shown = np.take_along_axis(contexts, np.argsort(-value, axis=1)[:, :POSITIONS, None], axis=1)
            clicks = world.users.browse(shown, rng)
            earned[name] += float(world.users.expected_clicks(shown).sum())
            users = 1 + number * 10**6 + minute * lists + np.arange(lists)
            sums.add(batch_of(name, users, np.full(lists, minute), clicks, first=minute * lists))
            if name == "ubm-linucb":
                model.learn(Samples.from_clicks(shown, clicks))
    choice = CompareChoice(control="lot", shares=dict.fromkeys(NAMES, 1.0))
    return compare(sums, LostClicks(reader=EventReader()), choice), {
        name: total / minutes / lists for name, total in earned.items()
    }


def contradictions(found, truth):
    """Return the buckets whose verdict contradicts the truth; of two that draw by lot none is ahead."""
    wrong = []
    for one in found.buckets:
        if one.lifts is None or one.lifts["sum"].decided_since_ms is None:
            continue
        lift = one.lifts["sum"]
        if one.bucket == "lot-too" or not lift.low <= truth[one.bucket] / truth["lot"] - 1 <= lift.high:
            wrong.append(one.bucket)
    return wrong
