"""Settings that change between two live runs: a replay of the raw events judges each by the rules of its time."""

from dataclasses import replace

import numpy as np
import pytest
from replay_runs import SETTINGS, START, K

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.embedded.job import Embedded
from streams.logs import Archive, LogBlock, LogRecord, LogWriter
from streams.logs.job import open_source
from streams.parameters import DirectoryParameters
from streams.replay import plan_of
from streams.replay.job import replay

CM = SETTINGS.buckets["cm"]
SHORT = replace(SETTINGS, lateness_s=15, future_s=1)


def events(first: int, lists: int) -> list:
    """One list a second, each clicked 80 s later, and one in ten dated 4 s ahead: time rules of both eras matter."""
    found = []
    for n in range(first, first + lists):
        at, session = START + 1000 * n, f"s{n % 9}"
        contexts = np.linspace(-1, 1, K * CM.dim, dtype="<f4") / (1 + n % 4)
        shown_at = at + (9_000 if n % 10 == 0 else 0)
        shown = Impression(f"i{n}", session, "cm", "u", shown_at, np.arange(K).tobytes(), contexts.tobytes(), K)
        found.append((at, shown))
        found.append((at + 80_000, Click(f"i{n}", session, 1 + n % K, shown_at + 1_000, 0.75)))
    return found


def run(folder, settings, *, first: int, lists: int, left: list) -> list:
    """Run for a minute of lists; return the events that are still to come."""
    todo = sorted([*left, *events(first, lists)], key=lambda pair: pair[0])
    until = START + 1000 * (first + lists)
    with Embedded(folder, settings, partitions=2) as loop:
        for at_ms in range(START + 1000 * first, until, 5_000):
            loop.append([event for at, event in todo if at_ms <= at < at_ms + 5_000], at_ms=at_ms + 5_000)
            loop.step(at_ms + 5_000)
    return [(at, event) for at, event in todo if at >= until]


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A directory in which the settings changed twice, with lists open and corrections to come each time."""
    folder, left = tmp_path_factory.mktemp("eras"), []
    for number, settings in enumerate((SETTINGS, SHORT, SETTINGS)):
        left = run(folder, settings, first=100 * number, lists=100, left=left)
    with Embedded(folder, SETTINGS) as loop:
        last = max(at for at, _ in left)
        for at, event in left:
            loop.append([event], at_ms=max(at, loop.logs.now_ms))
        loop.step(last + 1_000_000)
        ledgers = loop.ledgers.values()
        assert all(ledger.balanced and not ledger.open for ledger in ledgers)
        assert sum(ledger.dead_impressions for ledger in ledgers) == 10, "dated 4 s ahead while only 1 s was allowed"
        assert sum(ledger.late for ledger in ledgers) > 50, "80 s after their list while 75 s were allowed"
        assert sum(ledger.used for ledger in ledgers) > 100
    return folder


def replayed(folder, settings):
    plan, notes = plan_of(open_source(str(folder), settings), settings)
    result = replay(plan)
    return {name: model.sha256() for name, model in result.models.items()}, notes, result


def test_a_replay_gives_the_same_bits_as_live(changed):
    hashes, notes, result = replayed(changed, SETTINGS)
    assert notes == []
    assert hashes["cm"] == DirectoryParameters(changed / "snapshots").newest("cm").sha256
    assert sum(ledger.dead_impressions for ledger in result.ledgers.values()) == 10


def test_rules_on_the_parameters_topic_say_the_same(changed, tmp_path):
    with Embedded(changed, SETTINGS) as loop:
        rules = [replace(one, topic_id=loop.logs.archive.info("impressions").topic_id) for one in loop.logs.rules]
    copied = Archive(tmp_path)
    for topic in ("impressions", "clicks"):
        info = Archive(changed).info(topic)
        copied.add_topic(topic, partitions=2, topic_id=info.topic_id)
        for number in range(2):
            writer = LogWriter(copied.log(topic, number))
            for block in Archive(changed).log(topic, number).read():
                writer.append(block)
            writer.close()
    other = replace(rules[-1], topic_id="another topic", impressions_from=5, clicks_from=5, hash="0" * 16)
    copied.add_topic("parameters", partitions=1)
    writer = LogWriter(copied.log("parameters", 0))
    values = [encode(one) for one in (*rules, other)] + [b"not ours"]
    writer.append(LogBlock.of([LogRecord(n, 0, b"@rules-x", value) for n, value in enumerate(values)]))
    writer.close()
    assert replayed(tmp_path, SETTINGS)[:2] == replayed(changed, SETTINGS)[:2]


def test_other_settings_hold_for_all_events_and_that_is_said(changed):
    _, notes, result = replayed(changed, SHORT)
    assert any("other rules than the join did last" in note for note in notes)
    assert sum(ledger.dead_impressions for ledger in result.ledgers.values()) == 30
