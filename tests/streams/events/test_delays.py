"""The delay of a first click is the same in the join's metrics and on the dashboard."""

import numpy as np
from join_events import T0, World

from schemas.codec import decode
from streams.dashboard.click_delays import ClickDelays
from streams.dashboard.recent import DelayHistogram


def test_join_and_dashboard_find_the_same_first_clicks_and_delays():
    world = World()
    world.show("i", at=10)
    world.click(1, at=9.5, arrives=11)  # the user's clock is behind
    world.click(1, at=30)
    world.click(2, at=12.5)
    joined_ms = world.checkpoint(20).click_delays_ms
    assert joined_ms.tolist() == [0, 2500]
    shown, clicked = ([decode(record.value) for record in log.values()] for log in world.written.values())
    now_ms = T0 + 60_000
    page, by_join = ClickDelays(3600), DelayHistogram()
    page.add(shown, clicked, now_ms=now_ms)
    by_join.add(now_ms, joined_ms / 1000)
    np.testing.assert_array_equal(page.delays["main"].total(), by_join.total())
    assert by_join.total().sum() == 2
