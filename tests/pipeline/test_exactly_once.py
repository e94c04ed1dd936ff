"""Events through real join and learn workers give, bit by bit, what a ten-line reference gives from the raw events."""

from exactly_once import exactly_once
from kills import two_of_each


def test_thirty_thousand_lists_give_the_bits_of_the_reference(settings_for, tmp_path):
    """5% of the events twice, all out of order, clicks before their impression and after its close; two of each job."""
    with two_of_each(settings_for, tmp_path) as running:
        exactly_once(running, lists=30_000)
