"""Every border takes what the fuzzers begin with, and every case that ever broke one: tests/corpus/<target>/."""

from pathlib import Path

import pytest
from fuzz_targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(file.relative_to(CORPUS) for file in CORPUS.glob("*/*"))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", TARGETS)
def test_what_the_fuzzers_begin_with_is_taken(name):
    for seed in TARGETS[name].seeds():
        TARGETS[name].take(seed)
        TARGETS[name].take(seed[: len(seed) // 2])


@pytest.mark.timeout(10)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_once_broke_a_border_is_refused(case):
    TARGETS[case.parts[0]].take((CORPUS / case).read_bytes())
