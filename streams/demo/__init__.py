"""The closed loop with simulated users."""
