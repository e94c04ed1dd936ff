"""Replay of logs that are doubled, reordered, cut or damaged, and what it says of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from replay_runs import DIM, SETTINGS, START, hashes, live, rewrite

from schemas.codec import encode
from streams.logs import Archive, Mark, Range, RangeError
from streams.logs.archive import ArchiveCorrupt
from streams.logs.job import open_source
from streams.rank import Candidates
from streams.replay import ReplayError, compare, plan_of, snapshots_in
from streams.replay.job import replay, snapshots_of, write_directory


def doubled(records: list) -> list:
    middle = len(records) // 2
    later = [record._replace(offset=record.offset + 1) for record in records[middle:]]
    return [*records[: middle + 1], *later]


def reordered(records: list) -> list:
    middle = len(records) // 2
    one, two = records[middle], records[middle + 1]
    swapped = [one._replace(key=two.key, value=two.value), two._replace(key=one.key, value=one.value)]
    return [*records[:middle], *swapped, *records[middle + 2 :]]


def dropped(records: list) -> list:
    middle = len(records) // 2
    return [*records[:middle], *records[middle + 1 :]]


@pytest.mark.parametrize("change", [doubled, reordered], ids=lambda change: change.__name__)
@pytest.mark.parametrize("topic", ["impressions", "clicks"])
def test_an_event_doubled_or_moved_changes_nothing(own, topic, change):
    rewrite(own, topic, change)
    assert hashes(own) == live(own)


@pytest.mark.parametrize("topic", ["impressions", "clicks"])
def test_a_dropped_event_shows_against_the_producers_count(own, topic):
    produced = sum(len(block) for block in Archive(own).log(topic, 0).read())
    rewrite(own, topic, dropped)
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS)
    [ledger] = replay(plan).ledgers.values()
    assert getattr(ledger, topic) == produced - 1


def test_damage_in_the_middle_stops_with_what_was_good(own, tmp_path):
    [path] = Archive(own).log("impressions", 0).segments()
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 255
    path.write_bytes(data)
    plan, _ = plan_of(open_source(str(own), SETTINGS), replace(SETTINGS))
    said = []
    with pytest.raises(ArchiveCorrupt, match=r"damaged at byte \d+: .*the last good offset before it: \d+"):
        replay(plan, out=tmp_path, say=lambda passed, total: said.append(passed))
    assert 0 < json.loads((tmp_path / "partition-0.replay").read_bytes())["passed"] == said[-1] < plan.total()


REFUSED = {
    "an empty range": ({"within": Range((Mark(START + 10**12),))}, RangeError, "nothing to replay"),
    "beyond the end": ({"within": Range((), (Mark(None, "clicks", 0, 10**6),))}, RangeError, "clicks 0 on .* ends at"),
    "no such bucket": ({"only": ["gone"]}, ReplayError, "no bucket gone in the settings; there: ubm, cm, pbm"),
}


@pytest.mark.parametrize("options, error, said", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_replayed_is_refused(runs, options, error, said):
    with pytest.raises(error, match=said):
        plan_of(open_source(str(runs[1]), SETTINGS), SETTINGS, **options)


def test_what_retention_cut_is_refused_or_said(own):
    rewrite(own, "samples", lambda records: records[20:])
    source = open_source(str(own), SETTINGS)
    with pytest.raises(RangeError, match="begins at offset 20; 0 to 19 are gone"):
        plan_of(source, SETTINGS, samples=True, within=Range((Mark(None, "samples", 0, 0),)))
    _, notes = plan_of(source, SETTINGS, samples=True)
    assert len(notes) == 1
    assert "begins at offset 20: what was before is gone" in notes[0]


def test_records_that_cannot_be_learned_are_counted_with_the_first_reason(own):
    rewrite(own, "samples", lambda records: [records[0]._replace(value=b"junk"), *records[1:]])
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS, samples=True)
    done = replay(plan)
    assert done.refused == 1
    assert "samples 0 at offset 0: no Avro header" in done.reason


def test_a_comparison_tells_the_same_from_the_different(runs, tmp_path):
    plan, _ = plan_of(open_source(str(runs[3]), SETTINGS), SETTINGS)
    done = replay(plan)
    write_directory(tmp_path, snapshots_of(done, now_ms=1))
    there = snapshots_in(tmp_path, SETTINGS.buckets)
    assert {name: snapshot.sha256 for name, snapshot in there.items()} == live(runs[3])
    assert all(found.same_sums for found in compare(done.models, there))
    half, _ = plan_of(open_source(str(runs[3]), SETTINGS), SETTINGS, within=Range((), (Mark(START + 20_000),)))
    random_rows = np.random.default_rng(0).uniform(-0.5, 0.5, (60, DIM))
    candidates = Candidates(np.arange(60), random_rows)
    for found in compare(replay(half).models, there, candidates=candidates, size=10):
        assert not found.same_sums
        assert found.rounds < 0
        assert 0 <= found.overlap < 1 or found.bucket != "ubm"
        assert (found.distance is None) == (found.bucket == "pbm")
        assert str(found).startswith(f"{found.bucket}: {found.rounds} lists against {found.bucket}@1.{plan.total()},")
    assert encode(there["ubm"])
