"""The ledger balances a whole run, and names what is missing or too many in a broken one."""

import json
import shutil

import pytest
from replay_runs import LISTS, SETTINGS, play, rewrite

from schemas.codec import decode, encode
from schemas.records import SampleBatch
from streams.broker import partition_of
from streams.ledger.job import audit
from streams.ledger.unlearning import take_back
from streams.logs import Archive, LogRecord
from streams.logs.job import open_source


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    play(folder, 2)
    return folder


@pytest.fixture(params=["with commits", "copied"])
def own(request, run, tmp_path):
    """The runner's directory, or what a copy of topics has: no word of the join itself."""
    folder = shutil.copytree(run, tmp_path / "own")
    if request.param == "copied":
        (folder / "standing.json").unlink()
    return folder


def audited(folder):
    return audit(open_source(str(folder), SETTINGS), SETTINGS)


def test_a_whole_run_balances(own):
    result = audited(own)
    assert result.problems == []
    assert result.notes == []
    assert sum(result.written.of(number).lists for number in (0, 1)) == LISTS
    assert sum(ledger.lists for ledger in result.ledgers.values()) == LISTS
    corrections = sum(ledger.corrections for ledger in result.ledgers.values())
    written = sum(count.corrections for count in result.written.samples.values())
    assert min(corrections, written) > 0
    assert corrections == written or not (own / "standing.json").exists(), "how many depends on when lists were closed"
    assert {bucket for _, bucket in result.written.samples} == set(SETTINGS.buckets)
    assert {one.bucket: one.snapshot.rounds for one in result.learned} == {
        one.bucket: one.net for one in result.learned
    }
    assert sum(one.net for one in result.learned) == LISTS


def test_a_lost_sample_is_named_with_its_partition_and_counts(own):
    rewrite(own, "samples", lambda records: records[:1] + records[2:])
    problems = audited(own).problems
    *ledgers, snapshot = problems
    assert ledgers
    assert all("lists in samples, the ledger says" in problem for problem in ledgers)
    assert problems[0].startswith("partition ")
    assert snapshot.endswith("that is not the same"), "the snapshot still has what the samples have lost"


def test_a_sample_that_is_there_twice_is_named(own):
    rewrite(own, "samples", lambda records: [*records, records[0]._replace(offset=records[-1].offset + 1)])
    assert any("lists in samples, the ledger says" in problem for problem in audited(own).problems)


@pytest.mark.parametrize("share", [1, 8])
def test_lists_that_were_taken_back_twice_are_named(own, share):
    found = [decode(record.value, SampleBatch) for record in records_of(own, "samples", partition_of("ubm", 2))]
    ubm = [batch for batch in found if batch.bucket == "ubm" and (batch.signs_array > 0).all()]
    assert ubm
    some = sorted(ubm, key=lambda batch: len(batch.impression_ids))[: max(1, len(ubm) // share)]
    gone = [encode(take_back(batch, range(len(batch.impression_ids)))) for batch in some]

    def unlearned(records: list) -> list:
        return records + [LogRecord(records[-1].offset + 1 + n, 0, b"ubm", value) for n, value in enumerate(gone)]

    rewrite(own, "samples", unlearned, partition=partition_of("ubm", 2))
    assert audited(own).problems == []
    rewrite(own, "samples", unlearned, partition=partition_of("ubm", 2))
    problems = audited(own).problems
    assert all("had been taken back before" in problem or "that were there" in problem for problem in problems)
    lists = sum(len(batch.impression_ids) for batch in some)
    assert sum(int(problem.split()[-2]) for problem in problems if problem.endswith("times")) == lists
    assert any(problem.endswith("that were there") for problem in problems) == (share == 1), "a net below 0"


def test_a_lost_correction_is_named(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "own")
    is_correction = [-1 in decode(r.value, SampleBatch).signs_array for r in records_of(folder, "samples")]
    last = len(is_correction) - 1 - is_correction[::-1].index(True)
    rewrite(folder, "samples", lambda records: records[:last] + records[last + 1 :])
    assert any("corrections in samples, the ledger says" in problem for problem in audited(folder).problems)


def records_of(folder, topic, partition=0):
    return [record for block in Archive(folder).log(topic, partition).read() for record in block.records()]


@pytest.mark.parametrize("topic", ["impressions", "clicks"])
def test_a_dropped_event_shows_in_an_archive(run, tmp_path, topic):
    folder = shutil.copytree(run, tmp_path / "own")
    (folder / "standing.json").unlink()
    rewrite(folder, topic, lambda records: records[:30] + records[31:], partition=1)
    problems = audited(folder).problems
    assert f"{topic} 1: 1 offsets have no record; were they lost?" in problems


def test_a_lost_dead_letter_and_a_lost_late_click_are_named(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "own")
    for topic in ("dead-letters", "late-clicks"):
        for file in (folder / topic).rglob("*.avro"):
            file.unlink()
    problems = audited(folder).problems
    assert any("0 impressions in dead-letters, the ledger says 1" in problem for problem in problems)
    assert any("late-clicks holds 0 clicks, the ledgers say" in problem for problem in problems)


def test_a_ledger_that_does_not_add_up_is_printed_whole(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "own")
    standing = json.loads((folder / "standing.json").read_text())
    for pair in standing["commits"]:
        notes = json.loads(pair[0][1])
        notes["ledger"][0] += 1  # one impression more than became of them
        pair[0][1] = json.dumps(notes)
    (folder / "standing.json").write_text(json.dumps(standing))
    problems = audited(folder).problems
    assert [problem.partition(":")[0] for problem in problems] == [f"partition {n} does not balance" for n in (0, 1)]
    assert "impressions " in problems[0]
    assert "dead_clicks " in problems[0]


def test_topics_that_are_gone_or_cut_are_not_compared_but_said(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "own")
    shutil.rmtree(folder / "late-clicks")
    rewrite(folder, "samples", lambda records: records[3:])
    result = audited(folder)
    assert result.problems == []
    assert result.notes == [
        "samples was not compared: its oldest records were deleted",
        "late-clicks was not compared: it is not there",
    ]
