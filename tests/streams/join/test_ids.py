"""Who holds an impression id, until when, and how far back a restart must read for it."""

from join_events import LATENESS, T0, WAIT, World

from streams.join import clock as log_clock

HORIZON_S = (WAIT + LATENESS) / 1000


def reasons(checkpoint):
    return {letter.offset: letter.reason for letter in checkpoint.dead_letters if letter.value != b"nothing"}


def test_an_impression_that_was_refused_holds_its_id_for_a_horizon_of_its_log():
    world = World()
    world.time_passes(10, "impressions")
    world.show("i", at=10, rendered=9)
    world.time_passes(10 + HORIZON_S, "impressions")
    world.show("i", at=10 + HORIZON_S)
    world.time_passes(10.001 + 2 * HORIZON_S, "impressions")  # which the second one has held as well
    world.show("i", at=11 + 2 * HORIZON_S)
    checkpoint = world.checkpoint(at=0)
    assert reasons(checkpoint) == {
        2: "9 positions rendered of a list of 6; wanted 1 to 6",
        5: "impression 'i' has the id of an earlier one that was refused; the lower offset wins",
    }
    assert world.join.ledger.open == 1


def test_a_list_that_came_late_holds_its_id_beyond_its_own_horizon():
    world = World()
    world.time_passes(100, "impressions")
    world.show("i", at=0, arrives=100)
    world.time_passes(100 + HORIZON_S, "impressions")
    world.show("i", at=110, arrives=100 + HORIZON_S)
    assert reasons(world.checkpoint(at=1)) == {
        5: "impression 'i' has other content than at offset 2; the lower offset wins"
    }
    world.time_passes(100.001 + 2 * HORIZON_S)
    world.show("i", at=111 + HORIZON_S, arrives=100.001 + 2 * HORIZON_S)
    assert reasons(world.checkpoint(at=1)) == {}


def test_a_list_of_another_session_is_other_content():
    world = World()
    world.show()
    world.show(arrives=1)
    world.show(arrives=1, session_id="t")
    assert reasons(world.checkpoint(at=1)) == {
        2: "impression 'i' has other content than at offset 0; the lower offset wins"
    }
    assert world.join.ledger.duplicates == 1


def test_a_click_of_another_session_is_refused():
    world = World()
    world.show()
    world.click(1, session="t")
    world.click(2)
    checkpoint = world.checkpoint(at=61)
    assert reasons(checkpoint) == {0: "a click of another session than its list's; check the producer"}
    assert checkpoint.samples[0].rewards_array.tolist() == [0, 1, 0, 0, 0, 0]


def test_retries_that_say_another_time_do_not_pin_the_restart(monkeypatch):
    """An HTTP retry restamps one list in fifty, 20 s later: once that dragged the commit back to the first list."""
    monkeypatch.setattr(log_clock, "EVERY", 1)
    world, retries = World(), []
    for second in range(1500):
        world.show(f"i{second}", at=second, key=b"%d" % (second % 7))
        if second % 50 == 0:
            retries.append(second)
        if retries and second == retries[0] + 20:
            world.show(f"i{retries.pop(0)}", at=second, key=b"%d" % (second % 7))
        if second % 10 == 0:
            world.join.idle(clicks_ms=T0 + 1000 * second)
            commit = world.checkpoint(at=second).commit
            behind = second - (world.written["impressions"][commit.impressions.restart.offset].timestamp - T0) / 1000
            assert behind <= 3 * HORIZON_S + 30
            assert commit.lists_from >= commit.impressions.restart.offset
    assert world.join.ledger.dead_impressions == 30
