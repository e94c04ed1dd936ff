"""A histogram that is fed in bulk, and the text that Prometheus reads."""

from threading import Thread

import numpy as np
import pytest
from exposition import parse
from prometheus_client import CollectorRegistry, Counter, Histogram

from streams.web import BulkHistogram, text_of


def test_values_are_counted_at_or_below_each_bound():
    took = BulkHistogram("glimpse_round_seconds", "One round.", [0.1, 1])
    for value in (0.0625, 0.1, 0.5, 7):
        took.observe(value)
    assert text_of(took.collect()) == (
        "# HELP glimpse_round_seconds One round.\n"
        "# TYPE glimpse_round_seconds histogram\n"
        'glimpse_round_seconds_bucket{le="0.1"} 2.0\n'
        'glimpse_round_seconds_bucket{le="1"} 3.0\n'
        'glimpse_round_seconds_bucket{le="+Inf"} 4.0\n'
        "glimpse_round_seconds_count 4.0\n"
        "glimpse_round_seconds_sum 7.6625\n"
    )


def test_many_values_count_as_the_library_counts_them_one_by_one():
    values = np.random.default_rng(1).exponential(1.0, 1000)
    bounds = (0.1, 0.5, 1.0, 2.5, float(values[7]))
    bulk, slow = BulkHistogram("x", "X.", sorted(bounds)), Histogram("x", "X.", buckets=sorted(bounds), registry=None)
    bulk.observe_all(values[:400])
    bulk.observe_all(values[:0])
    other = BulkHistogram("x", "X.", sorted(bounds))
    other.observe_all(values[400:])
    bulk.merge(other)
    for value in values:
        slow.observe(value)
    found, wanted = (
        {(sample.name, float(sample.labels.get("le", 0))): sample.value for sample in family.samples}
        for text in (text_of(bulk.collect()), text_of(slow.collect()))
        for family in parse(text).values()
    )
    assert found == pytest.approx(wanted)


def test_threads_lose_no_value():
    took = BulkHistogram("x", "X.", [1])

    def work() -> None:
        for _ in range(500):
            took.observe(0.5)
            took.observe_all(np.array([0.5, 2.0]))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [family] = took.collect()
    assert [sample.value for sample in family.samples] == [4000, 6000, 6000, 6000.0]


def test_a_page_has_one_series_for_a_count():
    """The library adds the time of making to each count, which would double what Prometheus keeps."""
    registry = CollectorRegistry()
    Counter("glimpse_refused_total", "Refused.", ["reason"], registry=registry).labels('said "no"\n\\').inc(3)
    assert text_of(registry.collect()).splitlines()[2:] == [r'glimpse_refused_total{reason="said \"no\"\n\\"} 3.0']


def test_bounds_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="ascending"):
        BulkHistogram("x", "X.", [2, 1])
    with pytest.raises(ValueError, match="other bounds"):
        BulkHistogram("x", "X.", [1, 2]).merge(BulkHistogram("y", "Y.", [1, 3]))
