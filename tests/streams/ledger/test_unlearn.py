"""Taking a range back leaves, bit by bit, what training without it gives; doing it twice changes nothing."""

import re
import shutil
import zlib
from dataclasses import replace

import pytest
from replay_runs import SETTINGS, START, play, rewrite

from schemas.codec import decode, encode
from schemas.records import Impression, SampleBatch
from streams.broker import partition_of
from streams.events import EventReader
from streams.learn import samples_of
from streams.ledger import Selection, batches_of, effect
from streams.ledger.balance import ListName, names
from streams.ledger.job import join_commits
from streams.ledger.unlearning import Owners, UnlearnError, net_lists, plan_unlearning, take_back
from streams.logs import Archive, LogBlock, LogRecord, LogWriter, parse_time
from streams.logs.job import open_source
from streams.replay import plan_of
from streams.replay.job import replay

WAVE = Selection(START + 10_000, START + 25_000)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    play(folder, 3)
    return folder


@pytest.fixture
def own(run, tmp_path):
    return shutil.copytree(run, tmp_path / "own")


def samples(folder) -> list[SampleBatch]:
    logs = Archive(folder).logs("samples")
    return [decode(record.value, SampleBatch) for log in logs for block in log.read() for record in block.records()]


def in_wave(impression_id: str, shown_at_ms: int) -> bool:
    return WAVE.from_ms <= shown_at_ms < WAVE.to_ms


def without(folder, bucket: str, gone=in_wave) -> str:
    """The slow, obvious twin: learn every record, but only those of its lists that are not to go."""
    model = SETTINGS.buckets[bucket].model()
    for batch in samples(folder):
        if batch.bucket == bucket:
            shown = batch.shown_at_ms_array.tolist()
            for index, at in enumerate(shown):
                if not gone(batch.impression_ids[index], at):
                    model.learn(samples_of(batch)[index : index + 1])
    return model.sha256()


def learned(folder) -> dict[str, str]:
    plan, _ = plan_of(open_source(str(folder), SETTINGS), SETTINGS, samples=True)
    return {name: model.sha256() for name, model in replay(plan).models.items()}


def planned(folder, bucket, **changes):
    source = open_source(str(folder), SETTINGS)
    partition = partition_of(bucket, source.partitions("samples"))
    options = {"commits": join_commits(source), "partition": partition, "selection": WAVE, **changes}
    return source, plan_unlearning(source, SETTINGS, bucket=bucket, **options)


def append(folder, partition, batches) -> None:
    writer = LogWriter(Archive(folder).log("samples", partition))
    start = writer.next_offset
    records = [LogRecord(start + n, 0, batch.bucket.encode(), encode(batch)) for n, batch in enumerate(batches)]
    if records:
        writer.append(LogBlock.of(records))
    writer.close()


@pytest.mark.parametrize("bucket", SETTINGS.buckets)
def test_unlearning_a_range_equals_training_without_it(own, bucket):
    before = learned(own)
    wanted = {**before, bucket: without(own, bucket)}
    source, plan = planned(own, bucket)
    assert len(plan.lists) > 20
    assert plan.remembered == 0
    assert any(-1 in batch.signs_array for batch in samples(own)), "some lists were corrected before"
    append(own, plan.partition, list(batches_of(source, plan)))
    assert learned(own) == wanted != before
    source, again = planned(own, bucket)
    assert again.lists == []
    assert list(batches_of(source, again)) == []


def shown_to(folder, **who: str) -> list[Impression]:
    """The impressions of a session or a user, read from the raw log."""
    logs = Archive(folder).logs("impressions")
    read = (decode(record.value) for log in logs for block in log.read() for record in block.records())
    return [one for one in read if all(getattr(one, key) == value for key, value in who.items())]


@pytest.mark.parametrize("who", ["impression_id", "session_id", "user_id"])
def test_lists_are_taken_back_by_id_by_session_and_by_user(own, who):
    someone = next(one for one in shown_to(own, bucket="ubm") if one.shown_at_ms > WAVE.from_ms)
    ids = {one.impression_id for one in shown_to(own, bucket="ubm", **{who: getattr(someone, who)})}
    assert len(ids) == {"impression_id": 1, "session_id": 3, "user_id": 3}[who]
    before, wanted = learned(own), without(own, "ubm", gone=lambda name, at_ms: name in ids)
    named = frozenset([getattr(someone, who)])
    key = {"impression_id": "impressions", "session_id": "sessions", "user_id": "users"}[who]
    source, plan = planned(own, "ubm", selection=Selection(**{key: named}))
    append(own, plan.partition, list(batches_of(source, plan)))
    assert learned(own) == {**before, "ubm": wanted} != before


def test_owners_of_lists_are_told_by_any_reader(own):
    """Another format of events may hold no name as it is written here: these are compressed."""

    class Compressed(EventReader):
        def event(self, value, kind=None, **options):
            return super().event(zlib.decompress(value), kind, **options)

    def compressed(records):
        return [record._replace(value=zlib.compress(record.value)) for record in records]

    [who, *_] = shown_to(own, bucket="ubm")
    selection, source = Selection(users=frozenset([who.user_id])), open_source(str(own), SETTINGS)
    places = range(source.partitions("impressions"))
    lists = [ListName(who.impression_id, place, offset) for place in places for offset in range(1000)]
    theirs = list(filter(Owners(source, selection, EventReader()).chosen, lists))
    for place in places:
        rewrite(own, "impressions", compressed, partition=place)
    assert list(filter(Owners(source, selection, Compressed()).chosen, lists)) == theirs != []


def test_lists_whose_owner_nobody_knows_any_more_are_refused(own):
    later = Selection(users=frozenset(["user-7"]))
    for partition in range(3):
        rewrite(own, "impressions", lambda records: records[len(records) // 2 :], partition=partition)
    with pytest.raises(UnlearnError, match=r"lists of ubm are older .* say --from 2023-11-14T22:13:\d\dZ") as refused:
        planned(own, "ubm", selection=later)
    after = re.search(r"--from (\S+)", str(refused.value))[1]
    planned(own, "ubm", selection=replace(later, from_ms=parse_time(after)))
    planned(own, "ubm", selection=Selection(impressions=frozenset(["any"])))  # samples know the ids


def test_an_interrupted_unlearning_is_finished_by_the_next(own):
    wanted = without(own, "ubm")
    source, plan = planned(own, "ubm")
    everything = list(batches_of(source, plan))
    append(own, plan.partition, everything[: len(everything) // 2])
    source, rest = planned(own, "ubm")
    assert 0 < len(rest.lists) < len(plan.lists)
    append(own, rest.partition, list(batches_of(source, rest)))
    assert learned(own)["ubm"] == wanted


def test_lists_that_may_still_be_corrected_are_left_alone(run):
    source = open_source(str(run), SETTINGS)
    horizon_ms = 120_000
    young = {
        number: replace(
            commit,
            impressions=replace(commit.impressions, floor=START + 18_000),
            clicks=replace(commit.clicks, floor=START + 20_000),
        )
        for number, commit in join_commits(source).items()
    }
    (_, whole), (_, plan) = planned(run, "ubm"), planned(run, "ubm", commits=young)
    assert 0 < len(plan.lists) < len(whole.lists) == len(plan.lists) + plan.remembered
    assert START + 18_000 + horizon_ms < plan.again_at_ms <= WAVE.to_ms + horizon_ms
    assert "run it again once the logs have passed 2023-11-14T22:15" in str(plan)


def test_the_effect_is_told_before_it_happens(run):
    source, plan = planned(run, "ubm")
    model = replay(plan_of(source, SETTINGS, samples=True)[0]).models["ubm"]
    rounds = model.rounds
    said = effect(model, batches_of(source, plan))
    assert model.rounds == rounds - len(plan.lists)
    assert model.sha256() == without(run, "ubm")
    assert f"lists learned {rounds} → {model.rounds}" in said
    assert "θ moves by" in said


REFUSED = {
    "no such bucket": ({"bucket": "x"}, "no bucket 'x' in the settings; there: ubm, cm, pbm"),
    "an empty range": ({"selection": Selection(START, START)}, "is empty"),
    "no join": ({"commits": {}}, "no join has committed"),
}


@pytest.mark.parametrize("changes, said", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_taken_back_is_refused(run, changes, said):
    with pytest.raises(UnlearnError, match=said):
        planned(run, **{"bucket": "ubm", **changes})


def test_a_list_that_is_there_twice_is_refused_by_name(run):
    batch = next(batch for batch in samples(run) if batch.bucket == "ubm" and (batch.signs_array > 0).all())
    log = [(0, batch), (1, batch)]
    first, everything = f"{names(batch)[0].impression_id!r}.*", range(len(batch.impression_ids))
    with pytest.raises(UnlearnError, match=f"{first}is there 2 times in the net: learned more than once"):
        net_lists(log, Selection())
    log.append((2, take_back(batch, everything)))
    assert set(net_lists(log, Selection())) == set(names(batch))
    log += [(offset, take_back(batch, everything)) for offset in (3, 4)]
    with pytest.raises(UnlearnError, match=f"{first}is there -1 times in the net: taken back more often than learned"):
        net_lists(log, Selection())
