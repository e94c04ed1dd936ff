"""A service's transaction that stays open longer than lists live."""

from open_transaction import hold_transaction

from streams.join.job import owner, worker


def test_a_transaction_that_stays_open_beyond_the_horizon_loses_nothing(settings_for, monkeypatch):
    """A silent log has lists forgotten after a second here; tests/soak keeps the minute."""
    monkeypatch.setattr(owner, "IDLE_MARGIN_S", 1.0)
    monkeypatch.setattr(worker, "MAINTAIN_EVERY_S", 0.2)
    hold_transaction(settings_for, open_s=6.0)
