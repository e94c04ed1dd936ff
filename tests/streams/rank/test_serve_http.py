"""The ranking service over HTTP, which needs no Kafka to rank."""

import time
from dataclasses import replace

import numpy as np
import pytest
from ranking import Client, serving, write_npz

from schemas.codec import encode
from streams.parameters import DirectoryParameters, take_snapshot
from streams.rank import CatalogueError, read_catalogue
from streams.rank.job import CatalogueFile
from streams.rank.job.models import Models
from streams.settings import Bucket, Settings

BUCKETS = {
    "ubm": Bucket("ubm", algorithm="ubm-linucb", examination=np.tri(12) * 0.5 + 0.1, alpha=0.3),
    "c2ucb": Bucket("c2ucb", alpha=0.3),
    "pbm": Bucket("pbm", algorithm="pbm-ucb", dim=0, examination=np.full(12, 0.5)),
}


@pytest.fixture
def settings_for():
    """Settings of a service whose Kafka is away: ranking does not need it."""

    def make(**changes):
        return Settings(**{"kafka": "127.0.0.1:9", "buckets": BUCKETS} | changes)

    return make


def test_candidates_may_be_given_filtered_or_named(settings_for, tmp_path):
    settings = settings_for(buckets={"c2ucb": BUCKETS["c2ucb"]})
    shop = write_npz(tmp_path / "shop.npz")
    with serving(settings, source=str(tmp_path), catalogue=shop) as server:
        client = Client(server)

        def items(**candidates):
            said = client.post("/rank", {"user": "u", "candidates": candidates, "size": 4})
            return said.found["items"] if said.status == 200 else (said.status, said.found["error"])

        assert set(items(items=[3, 5, 9])) == {3, 5, 9}
        assert all(item % 2 == 1 for item in items(tags={"kind": "shoe"}))
        assert items(tags={"kind": ["coat"]}) == []
        assert set(items(items=[3, 5, 9], without=[5])) == {3, 9}
        contexts = np.eye(10)[:3] * [[0.1], [0.9], [0.5]]
        assert items(items=[3, 5, 9], contexts=contexts.tolist()) == [5, 9, 3]  # by width: nothing is learned yet
        assert items(items=[4000]) == (404, "the catalogue has no item 4000")
        assert items(items=[3], contexts=[[0.1]]) == (400, "contexts have 1 numbers; bucket 'c2ucb' wants 10")
        assert items(items=[3, 5], contexts=[[0.5] * 10, [0.5] * 9 + [2.0]]) == (
            400,
            "$.candidates.contexts[1][9] is 2, not within ±1, the context_scale of bucket 'c2ucb'",
        )
        assert items(items=[3, 3])[0] == 400
        assert items(shelf=3)[0] == 400


def test_a_batch_is_answered_one_by_one(settings_for, tmp_path):
    settings = settings_for(buckets=BUCKETS)
    with serving(settings, source=str(tmp_path), catalogue=write_npz(tmp_path / "shop.npz")) as server:
        client = Client(server)
        said = client.post("/rank", [{"user": "u1"}, {"size": 3}, {"user": "u2", "size": 3}])
        assert [len(one.get("items", ())) for one in said.found] == [12, 0, 3]
        assert said.found[1] == {"error": "Object missing required field `user`; see /openapi.json"}
        assert client.post("/rank", [{"user": "u"}] * 1001).status == 413


def test_only_who_has_the_token_and_says_json_is_heard(settings_for, tmp_path):
    settings = settings_for()
    with serving(settings, source=str(tmp_path), token="secret") as server:
        client = Client(server)
        assert client.get("/items").status == 403
        assert client.get("/items", Authorization="Bearer wrong").status == 403
        assert client.get("/items", Authorization="Bearer secret").status == 200
        assert client.get("/livez").status == 200
        bare = {"Content-Type": "text/plain", "Authorization": "Bearer secret"}
        assert client.post("/click", {}, **bare).status == 415
        assert client.say("POST", "/items", {}, Authorization="Bearer secret").status == 405
        assert client.get("/else", Authorization="Bearer secret").status == 404
    with serving(settings, source=str(tmp_path)) as server:
        assert Client(server).get("/items", Host="evil.example").status == 403


def test_the_interface_describes_what_is_there(settings_for, tmp_path):
    with serving(settings_for(), source=str(tmp_path), catalogue=write_npz(tmp_path / "s.npz")) as server:
        client = Client(server)
        described = client.get("/openapi.json").found
        for path, operations in described["paths"].items():
            for method in operations:
                assert client.say(method.upper(), path, {}).status in (200, 400), path
        answer = described["components"]["schemas"]["RankAnswer"]["properties"]
        assert set(client.post("/rank", {"user": "u"}).found) == set(answer)
        assert described["components"]["schemas"]["RankBody"]["required"] == ["user"]
        assert "unknown field `x`; see /openapi.json" in client.post("/rank", {"x": 1}).found["error"]
        figures = client.get("/metrics").found
        assert 'glimpse_serve_answers_total{path="/rank",status="200"} 1.0' in figures
        assert client.get("/items").found["catalogue"]["items"] == 400


ONE = {"c2ucb": BUCKETS["c2ucb"]}


def test_a_full_queue_is_said_and_counted(settings_for, tmp_path):
    with serving(settings_for(buckets=ONE), source=str(tmp_path), catalogue=write_npz(tmp_path / "s.npz")) as server:
        client, queue = Client(server), server.service.queue
        queue.most_bytes = 5000
        shown = [client.post("/rank", {"user": f"u{n}"}) for n in range(20)]
        assert {said.status for said in shown} == {200}
        logged = [said.found["logged"] for said in shown]
        assert logged == sorted(logged, reverse=True)
        assert 1 < sum(logged) < 10
        click = {"type": "click", "impression_id": "i", "session_id": "s", "position": 1}
        said = client.post("/feedback", [click] * 20)
        assert (said.status, said.headers["Retry-After"]) == (503, "1")
        queue.most_bytes = queue.waiting_bytes
        assert client.get("/readyz")[:2] == (503, "too many events wait for Kafka\n")
        figures = client.get("/metrics").found
        assert f"glimpse_serve_lists_unlogged_total {20 - sum(logged)}.0" in figures
        assert f"glimpse_serve_events_refused_total {40 - sum(logged)}.0" in figures
        server.service.log_first = True
        assert client.post("/rank", {"user": "u"}).status == 503


def test_contexts_of_another_recipe_are_refused(tmp_path):
    shop = write_npz(tmp_path / "shop.npz")
    digest = read_catalogue(shop).recipe_sha256
    pinned = replace(BUCKETS["c2ucb"], contexts_sha256=digest)
    other = replace(pinned, contexts_sha256="0" * 64)
    with pytest.raises(CatalogueError, match="of the catalogue's recipe"):
        Models({"c2ucb": other}, DirectoryParameters(tmp_path), catalogue=CatalogueFile(shop))
    store = DirectoryParameters(tmp_path)
    put = {"samples_offset": 3, "topic_id": "t", "partition": 0, "published_at_ms": 0}
    learned = take_snapshot(pinned.model(), pinned, **put)
    assert learned.encoder_sha256 == digest
    store.put(learned, encode(learned))
    models = Models({"c2ucb": pinned}, store, catalogue=CatalogueFile(shop))
    assert models.in_use("c2ucb").version == (1, 3)
    models.close()
    fresh = Models({"c2ucb": other}, store)
    assert fresh.in_use("c2ucb").version == (0, -1)
    fresh.close()


def test_a_list_that_was_not_logged_in_time_is_neither_shown_nor_logged(settings_for, tmp_path):
    shop = write_npz(tmp_path / "s.npz")
    with serving(settings_for(), source=str(tmp_path), catalogue=shop, log_first=True, deadline_s=0.3) as server:
        client, queue = Client(server), server.service.queue
        said = client.post("/rank", {"user": "u"})
        assert (said.status, said.found["error"]) == (503, "Kafka did not confirm within 0.3 s")
        click = {"impression_id": "i", "session_id": "s", "position": 1}
        assert client.post("/click", click).status == 503  # but is kept: a click may come twice
        end = time.monotonic() + 20
        while queue.waiting_bytes > 700 and time.monotonic() < end:
            time.sleep(0.05)
        assert 0 < queue.waiting_bytes < 700
