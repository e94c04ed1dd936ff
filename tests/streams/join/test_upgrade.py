"""Commits, samples and parameters of the first version, resumed bit for bit (tests/fixtures/af2780c)."""

import gzip
import json
from base64 import b64decode, b85encode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from zlib import compress

import pytest
from join_world import signed_lists

from schemas.codec import decode, encode
from schemas.records import SampleBatch, Snapshot
from streams.events import Acceptance
from streams.join import BadCommit, Commit, SessionJoin
from streams.join import clock as log_clock
from streams.learn import Durable, PartitionLearner, SamplesPartition
from streams.logs import LogRecord
from streams.settings import Bucket

T0, WAIT, LATENESS, FUTURE = 1_700_000_000_000, 20_000, 20_000, 5_000
BUCKETS = {
    "a": Bucket("a", "c2ucb", dim=2, positions=4),
    "b": Bucket("b", "cm-linucb", dim=1, positions=3, reward_scale=2.0),
}
OLD = json.loads(gzip.decompress((Path(__file__).parents[2] / "fixtures/af2780c/join.json.gz").read_bytes()))
LOGS = {
    name: [LogRecord(offset, at, key.encode(), b64decode(value)) for offset, at, key, value in OLD[name]]
    for name in ("impressions", "clicks")
}
SAMPLES = [b64decode(value) for value in OLD["samples"]]


class Upgraded:
    """Today's join, going on where the first version stopped."""

    def __init__(self, number: int) -> None:
        self.step, entries, self.before = OLD["commits"][number]
        self.commit, ids = Commit.decode(*map(tuple, entries))
        assert ids == ("x", "y")
        self.samples, self.dead, self.late, self.known = [], [], [], {}
        self.restart()

    def restart(self, buckets=BUCKETS) -> None:
        self.join = SessionJoin(
            Acceptance(buckets, future_ms=FUTURE),
            wait_ms=WAIT,
            lateness_ms=LATENESS,
            resume=self.commit,
            known=self.known,
        )
        for name, part in (("impressions", self.commit.impressions), ("clicks", self.commit.clicks)):
            again = [one for one in LOGS[name] if part.place.offset <= one.offset < part.processed]
            getattr(self.join, f"add_{name}")(again, part.processed)
        assert not self.join.rebuilding
        assert self.join.ledger == self.commit.ledger

    def go_on(self, *, restarts: bool) -> None:
        for step in range(self.step + 4_000, 170_000, 4_000):
            for name, log in LOGS.items():
                due = [T0 + 30_000 if one.key == b"ahead" else one.timestamp for one in log]
                start = getattr(self.join, name).offset
                stop = max(start, sum(at < T0 + step for at in due))
                getattr(self.join, f"add_{name}")(log[start:stop], stop)
            self.checkpoint(T0 + step)
            if restarts:
                self.restart()
        self.join.idle(impressions_ms=T0 + 10**7, clicks_ms=T0 + 10**7)
        self.checkpoint(T0 + 10**7)

    def checkpoint(self, clock_ms: int) -> None:
        found = self.join.checkpoint(clock_ms)
        self.samples += [encode(batch) for batch in found.samples]
        self.dead += [[letter.topic, letter.offset] for letter in found.dead_letters]
        self.late += [click.offset for click in found.late_clicks]
        self.known |= {rules.hash: rules.rules for rules in found.rules}
        self.commit, _ = Commit.decode(*found.commit.encode(("x", "y")))


def net(samples: list[bytes]) -> Counter:
    found = Counter()
    for value in samples:
        found.update(signed_lists(decode(value, SampleBatch)))
    return Counter({entry: count for entry, count in found.items() if count})


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("number", range(len(OLD["commits"])))
def test_a_commit_of_the_first_version_is_resumed_bit_for_bit(number, restarts, monkeypatch):
    monkeypatch.setattr(log_clock, "EVERY", 4)
    new = Upgraded(number)
    new.go_on(restarts=restarts)
    assert net(SAMPLES[: new.before] + new.samples) == net(SAMPLES)
    assert new.join.ledger.counts() == OLD["ledger"]
    assert new.dead == OLD["dead"][len(OLD["dead"]) - len(new.dead) :], "what comes later is refused once"
    assert sorted(new.late) == sorted(OLD["late"][len(OLD["late"]) - len(new.late) :])


def test_parameters_of_the_first_version_are_learned_on_to_the_same_bits():
    new = Upgraded(2)
    new.go_on(restarts=False)
    then = {name: decode(b64decode(value), Snapshot) for name, value in OLD["parameters"]["then"].items()}
    learner = PartitionLearner(BUCKETS, SamplesPartition("samples", "first", 0, 1), Durable(then))
    learner.apply(LogRecord(new.before + n, 0, None, value) for n, value in enumerate(new.samples))
    wanted = {name: decode(b64decode(value), Snapshot).sha256 for name, value in OLD["parameters"]["end"].items()}
    assert {one.bucket: one.sha256 for one in learner.publish(now_ms=0)[0]} == wanted


def test_other_settings_begin_where_the_first_version_stopped():
    new = Upgraded(2)
    new.restart({"a": replace(BUCKETS["a"], positions=1), "b": BUCKETS["b"]})
    new.go_on(restarts=False)
    kept = {offset for offset, _ in net(SAMPLES[: new.before] + new.samples)}
    old = {offset for offset, _ in net(SAMPLES)}
    processed = Commit.decode(*map(tuple, OLD["commits"][2][1]))[0].impressions.processed
    assert {offset for offset in kept if offset < processed} == {offset for offset in old if offset < processed}
    assert not {entry[0] for offset, entry in net(new.samples) if offset >= processed} & {"a"}


def test_rules_that_found_no_room_in_a_commit_are_those_of_the_settings_or_refused():
    entries = json.loads(json.dumps(OLD["commits"][2][1]))
    notes = json.loads(entries[1][1])
    del notes["accept"]
    entries[1][1] = json.dumps(notes)
    commit, _ = Commit.decode(*map(tuple, entries))
    times = {"wait_ms": WAIT, "lateness_ms": LATENESS}
    SessionJoin(Acceptance(BUCKETS, future_ms=FUTURE), **times, resume=commit)
    with pytest.raises(BadCommit, match="start once with the old ones"):
        SessionJoin(Acceptance(BUCKETS, future_ms=FUTURE + 1), **times, resume=commit)


def test_settings_that_had_just_changed_are_left_to_the_first_version():
    entries = json.loads(json.dumps(OLD["commits"][2][1]))
    notes = json.loads(entries[1][1])
    past = [[5, 5, T0, "[1,[]]"]]
    accept = json.dumps([FUTURE, Acceptance(BUCKETS, future_ms=FUTURE).limits])
    notes["accept"] = b85encode(compress(json.dumps([accept, past]).encode())).decode()
    entries[1][1] = json.dumps(notes)
    commit, _ = Commit.decode(*map(tuple, entries))
    with pytest.raises(BadCommit, match="start that version once more"):
        SessionJoin(Acceptance(BUCKETS, future_ms=FUTURE), wait_ms=WAIT, lateness_ms=LATENESS, resume=commit)
    assert commit.ledger.balanced, "the ledger can be read all the same"
