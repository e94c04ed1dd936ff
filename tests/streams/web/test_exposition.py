"""The checker of metrics must be able to fail."""

import pytest
from exposition import parse

GOOD = '# HELP glimpse_a_total Things.\n# TYPE glimpse_a_total counter\nglimpse_a_total{x="1",y="a\\"b"} 3\n'


def test_a_good_page_is_read():
    [family] = parse(GOOD).values()
    assert (family.kind, family.labels, list(family.samples.values())) == ("counter", {"x", "y"}, [3.0])


BAD = {
    "no help": GOOD.partition("\n")[2],
    "help without words": GOOD.replace(" Things.", " "),
    "a counter without _total": GOOD.replace("_total", ""),
    "a gauge with _total": GOOD.replace("counter", "gauge"),
    "milliseconds": GOOD.replace("a_total", "a_ms").replace("counter", "gauge"),
    "twice the same": GOOD + GOOD.splitlines()[2] + "\n",
    "a family twice": GOOD + GOOD,
    "somebody else's name": GOOD.replace("glimpse_", "python_"),
    "labels that are not quoted": GOOD.replace('x="1"', "x=1"),
    "a negative count": GOOD.replace("} 3", "} -3"),
    "a sample of another family": GOOD + "glimpse_b 1\n",
    "a histogram without its end": "# HELP glimpse_h H.\n# TYPE glimpse_h histogram\n"
    'glimpse_h_bucket{le="1"} 1\nglimpse_h_sum 1\nglimpse_h_count 2\n',
}


@pytest.mark.parametrize("page", BAD.values(), ids=BAD)
def test_a_bad_page_is_refused(page):
    with pytest.raises((AssertionError, KeyError)):
        parse(page)
