"""What the ranking service writes to a real Kafka."""

import json
from contextlib import closing

import numpy as np
from jobs import Jobs
from metarank_events import INTERACTION, ITEM, RANKING
from ranking import Client, logged, serving, write_npz

from learner import Samples
from streams.logs.job import open_source
from streams.replay import plan_of
from streams.replay.job import replay
from streams.settings import Bucket

CLICKED = ("impression_id", "session_id")
BUCKETS = {
    "ubm": Bucket("ubm", algorithm="ubm-linucb", examination=np.tri(12) * 0.5 + 0.1, alpha=0.3),
    "c2ucb": Bucket("c2ucb", alpha=0.3),
    "pbm": Bucket("pbm", algorithm="pbm-ucb", dim=0, examination=np.full(12, 0.5)),
}


def test_lists_are_answered_logged_and_clicked(settings_for, tmp_path):
    settings = settings_for(buckets=BUCKETS)
    shop = write_npz(tmp_path / "shop.npz")
    with serving(settings, source=str(tmp_path), catalogue=shop) as server:
        client = Client(server)
        lists = [client.post("/rank", {"user": f"u{n}", "session": f"s{n}"}).found for n in range(30)]
        for shown in lists:
            assert client.post("/click", {key: shown[key] for key in CLICKED} | {"position": 2}).status == 202
        assert {shown["bucket"] for shown in lists} == set(BUCKETS)
        assert all(shown["version"] == [0, -1] and len(shown["items"]) == 12 and shown["logged"] for shown in lists)
        impressions, clicks = logged(settings, wanted=60)
    found = {one.impression_id: one for one in impressions}
    held = dict(zip(range(400), np.load(shop)["features"], strict=True))
    for shown in lists:
        one = found[shown["impression_id"]]
        assert (one.bucket, one.session_id, one.items_array.tolist()) == (
            shown["bucket"],
            shown["session_id"],
            shown["items"],
        )
        if one.bucket != "pbm":
            expected = [[1.0, *held[item]] for item in shown["items"]]
            assert np.array_equal(one.contexts_array, np.array(expected, np.float32))
    assert {one.impression_id for one in clicks} == found.keys()


def test_feedback_takes_what_is_sound_and_says_what_is_not(settings_for, tmp_path):
    settings = settings_for(buckets={"c2ucb": BUCKETS["c2ucb"]})
    shown = {"type": "impression", "impression_id": "i", "session_id": "s", "bucket": "c2ucb", "user_id": "u"}
    events = [
        {**shown, "items": [1, 2], "contexts": [[0.1] * 10] * 2},
        {"type": "click", "impression_id": "i", "session_id": "s", "position": 2},
        {**shown, "items": [1], "contexts": [[2.0] * 10]},
        {**shown, "bucket": "other", "items": [1], "contexts": [[0.1] * 10]},
        {"type": "click", "impression_id": "i", "session_id": "s", "position": 0},
        {"type": "click", "impression_id": "i", "session_id": "s", "position": 1, "clicked_at_ms": 1 << 60},
        7,
    ]
    with serving(settings, source=str(tmp_path)) as server:
        client = Client(server)
        said = client.post("/feedback", events)
        assert (said.status, said.found["accepted"], said.found["refused"]) == (202, 2, 5)
        assert [one["index"] for one in said.found["errors"]] == [2, 3, 4, 5, 6]
        assert "unknown bucket 'other'" in said.found["errors"][1]["error"]
        lines = b'{"type": "click", "impression_id": "i", "session_id": "s", "position": 1}\n' * 3
        said = client.post("/feedback", lines, **{"Content-Type": "application/x-ndjson"})
        assert (said.status, said.found["accepted"]) == (202, 3)
        assert client.post("/feedback", events[4]).status == 400
        impressions, clicks = logged(settings, wanted=5)
    assert len(impressions) == 1
    assert list(dict.fromkeys(click.position for click in clicks)) == [2, 1]  # what is sent again keeps its order


def test_logged_first_waits_for_kafka(settings_for, tmp_path):
    settings = settings_for(buckets=BUCKETS)
    with serving(
        settings, source=str(tmp_path), log_first=True, deadline_s=20, catalogue=write_npz(tmp_path / "s.npz")
    ) as server:
        shown = Client(server).post("/rank", {"user": "u"})
        assert shown.status == 200
        assert server.service.queue.delivered == 1


def test_documented_events_of_metarank_are_taken_and_learned(settings_for, tmp_path):
    bucket = Bucket("main", dim=1, positions=3, context_scale=2.0)
    settings = settings_for(buckets={"main": bucket}, partitions=1)
    with serving(settings, source=str(tmp_path)) as server:
        said = Client(server).post("/feedback", [ITEM, RANKING, INTERACTION])
        assert (said.status, said.found["accepted"], said.found["passed_over"]) == (202, 2, 1)
        logged(settings, wanted=2)
    again = {"id": "another", "timestamp": str(int(RANKING["timestamp"]) + 5000)}
    lines = [ITEM, RANKING | again, INTERACTION | again | {"ranking": "another", "item": "item3"}]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    jobs = Jobs(settings, tmp_path)
    assert jobs.start("produce", "--yes", str(tmp_path / "events.jsonl")).wait(60) == 0, jobs.printed()
    with closing(open_source("kafka", settings)) as source:
        learned = replay(plan_of(source, settings)[0]).models["main"]
    assert learned.rounds == 2
    by_hand = bucket.model()
    by_hand.learn(Samples.from_clicks(np.array([[[2.0], [1.0], [0.1]]] * 2), np.array([[0, 1, 0], [1, 0, 0]])))
    np.testing.assert_allclose(learned.theta, by_hand.theta, rtol=1e-6)
