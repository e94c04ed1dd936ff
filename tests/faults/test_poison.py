"""Many bad records between good ones: bounded memory and transactions, and the good ones hardly slower."""

import pytest
from poison import MEMORY_MB, join_all


@pytest.mark.timeout(300)
def test_bad_records_of_every_kind_and_size_hold_nobody_up(settings_for, tmp_path):
    plain = join_all(settings_for, tmp_path / "plain", lists=4_000, bad=0)
    mixed = join_all(settings_for, tmp_path / "mixed", lists=4_000, bad=600)
    print(plain, mixed, sep="; ")
    assert mixed.peak_mb < MEMORY_MB
    assert mixed.cpu_s < 2 * plain.cpu_s + 1
