"""Ten times the traffic for a while: bounded memory that comes back, nothing lost, no lag in the end."""

from burst import burst


def test_a_burst_of_ten_times_the_traffic(settings_for, tmp_path):
    burst(settings_for, tmp_path, rate=40, burst_s=40)
