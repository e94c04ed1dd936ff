"""Many bad records between good ones: each a letter, and bounded memory and transactions."""

from poison import MEMORY_MB, join_all


def test_bad_records_of_every_kind_and_size_take_bounded_memory(settings_for, tmp_path):
    mixed = join_all(settings_for, tmp_path / "mixed", lists=3_000, bad=600)
    print(mixed)
    assert mixed.peak_mb < MEMORY_MB
