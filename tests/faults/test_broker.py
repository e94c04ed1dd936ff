"""A broker that stops for a while, and one that is killed: no worker ends, the same bits."""

import pytest
from broker_faults import break_broker


@pytest.mark.timeout(800)
def test_a_broker_that_stops_and_is_killed_ends_no_worker_and_changes_no_bit(new_broker, settings_for, tmp_path):
    break_broker(new_broker, settings_for, tmp_path, faults=["stop", "kill"], lists=24_000)
