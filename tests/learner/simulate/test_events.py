"""Streams of events: in order of time, complete, seeded, and open to a model that learns between them."""

import numpy as np
import pytest
from simulated_events import Clicked, Shown, stream, turned
from simulated_traffic import traffic

from learner import Samples, UbmLinUcb
from learner.simulate import World, browsing_table

TABLE = browsing_table(4)


def world(**more):
    return World.random(
        np.random.default_rng(0), dim=5, examination=TABLE, items=200, candidates=20, mean=0.5, spread=0.45, **more
    )


def at(event):
    return event.shown_at_ms if isinstance(event, Shown) else event.clicked_at_ms


def test_a_stream_is_ordered_and_every_click_follows_its_list():
    events = list(stream(world(), None, lists_per_s=5, until_s=200, random=np.random.default_rng(1), click_delay_s=30))
    assert [at(event) for event in events] == sorted(at(event) for event in events)
    shown = {event.list_id: event for event in events if isinstance(event, Shown)}
    clicks = [event for event in events if isinstance(event, Clicked)]
    assert 800 < len(shown) < 1200  # 5 a second, at random
    assert len(clicks) > 500
    assert {(c.list_id, c.position) for c in clicks} == {(c.list_id, c.position) for c in clicks if c.list_id in shown}
    assert all(c.clicked_at_ms >= shown[c.list_id].shown_at_ms and c.user == shown[c.list_id].user for c in clicks)
    assert max(c.clicked_at_ms for c in clicks) > max(s.shown_at_ms for s in shown.values())  # some come after the end
    first = [c for c in clicks if sum(other.list_id == c.list_id for other in clicks) == 1]
    delays = [c.clicked_at_ms - shown[c.list_id].shown_at_ms for c in first]
    assert 25_000 < np.mean(delays) < 35_000


def test_the_same_seed_gives_the_same_stream():
    once, again = (
        list(stream(world(), None, lists_per_s=2, until_s=50, random=np.random.default_rng(3), turns_per_day=9))
        for _ in range(2)
    )
    assert len(once) == len(again)
    for one, other in zip(once, again, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_model_that_learns_on_the_way_earns_more():
    model = UbmLinUcb(5, examination=TABLE, alpha=0.3)
    open_lists, clicks, earned = {}, {}, {}
    events = stream(world(), model.rank, lists_per_s=50, until_s=40, random=np.random.default_rng(4), click_delay_s=1)
    for event in events:
        if isinstance(event, Clicked):
            clicks[event.list_id][event.position - 1] = 1
            continue
        open_lists[event.list_id], clicks[event.list_id] = event, np.zeros(4)
        done = [key for key, shown in open_lists.items() if event.shown_at_ms - shown.shown_at_ms > 5000]
        for key in done:
            model.learn(Samples.from_clicks(open_lists.pop(key).contexts[None], clicks[key][None]))
            earned[key] = clicks[key].sum()
    by_time = np.array([earned[key] for key in sorted(earned)])
    assert by_time[-500:].mean() > 1.2 * by_time[:250].mean()


def test_a_drifting_taste_turns_and_stays_a_chance():
    start = world()
    quarter = turned(start, np.pi / 2)
    assert abs(quarter.users.taste[1:] @ start.users.taste[1:]) < 1e-12
    np.testing.assert_allclose(turned(start, 2 * np.pi).users.taste, start.users.taste)
    for angle in np.linspace(0, 6, 20):
        _, contexts = start.visits(np.random.default_rng(1), 50)
        gamma = turned(start, angle).users.attractiveness(contexts)
        assert gamma.min() >= 0
        assert gamma.max() <= 1


def test_traffic_as_arrays_and_as_events_is_the_same_log():
    log = traffic(world(), np.random.default_rng(5), lists=2000, start_ms=1000)
    assert len(log.samples()) == len(log) == 2000
    events = list(log.events())
    assert [at(event) for event in events] == sorted(at(event) for event in events)
    clicks = np.zeros(log.clicks.shape)
    for event in events:
        if isinstance(event, Clicked):
            clicks[event.list_id, event.position - 1] += 1
            assert event.clicked_at_ms == log.clicked_at_ms[event.list_id, event.position - 1]
        else:
            np.testing.assert_array_equal(event.items, log.items[event.list_id])
    np.testing.assert_array_equal(clicks, log.clicks)
    assert ((log.clicked_at_ms >= 0) == (log.clicks > 0)).all()
    assert all(len(set(row)) == 4 for row in log.items.tolist())


def test_visits_at_once_are_distributed_as_one_by_one():
    here = world()
    random = np.random.default_rng(6)
    items, contexts = here.visits(random, 400)
    single = np.concatenate([here.visit(random)[1] for _ in range(400)])
    assert all(len(set(row)) == 20 for row in items.tolist())
    np.testing.assert_allclose(np.linalg.norm(contexts, axis=-1), 1.0)
    assert abs(here.users.attractiveness(contexts).mean() - here.users.attractiveness(single).mean()) < 0.02
    assert abs(here.users.attractiveness(contexts).std() - here.users.attractiveness(single).std()) < 0.02


def test_a_world_with_fewer_items_than_candidates_is_refused():
    with pytest.raises(ValueError, match="got 4 positions, 20 candidates, 10 items"):
        World.random(np.random.default_rng(0), examination=TABLE, items=10, candidates=20)
