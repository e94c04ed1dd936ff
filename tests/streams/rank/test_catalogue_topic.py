"""The catalogue on a compacted topic of a real broker: published, taken over under load, never half of it."""

import threading
import time
from contextlib import closing

import numpy as np
import pytest
from ranking import Client, serving, write_npz
from typer.testing import CliRunner

from streams.broker import producer, transactional
from streams.commands.main import cli
from streams.rank import read_catalogue
from streams.rank.catalogue_file import read_entries
from streams.rank.job import CatalogueTopic, catalogues, publish_catalogue
from streams.settings import Bucket

BUCKET = Bucket("main", dim=10, positions=12, alpha=0.3)
SWAPS = 12


@pytest.fixture
def settings(settings_for):
    return settings_for(buckets={"main": BUCKET})


def until(holds, *, within_s=20.0):
    """Wait until something holds."""
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


def test_a_catalogue_is_published_changed_and_taken_over(settings, tmp_path):
    file = write_npz(tmp_path / "shop.npz", items=40)
    with serving(settings, source=str(tmp_path), catalogue="kafka", refresh_s=0.02) as server:
        client = Client(server)
        assert client.get("/readyz").status == 503
        assert "no catalogue is held here" in client.post("/rank", {"user": "u"}).found["error"]
        (tmp_path / "glimpse.toml").write_text(
            f'kafka = "{settings.kafka}"\ntopic_prefix = "{settings.topic_prefix}"\n[buckets.main]\ndim = 10\n'
        )
        done = CliRunner().invoke(cli, ["catalogue", str(file), "--config", str(tmp_path / "glimpse.toml")])
        assert "40 items and 0 users; 41 records written, 0 taken out" in done.stderr, done.output
        until(lambda: client.get("/readyz").status == 200)
        models = server.service.models
        assert models.catalogue.version == read_catalogue(file).version
        assert publish_catalogue(settings, file)[2:] == (0, 0)
        fewer = write_npz(tmp_path / "fewer.npz", items=30, seed=0, first=5)
        assert publish_catalogue(settings, fewer)[2:] == (30, 10)
        until(lambda: models.catalogue.version == read_catalogue(fewer).version)
        to, topic = producer(settings), f"{settings.topic_prefix}catalogue"
        to.send(topic, b'{"item": 99, "features": [0,0,0,0,0,0,0,0,0]}', key=b"item 98", partition=0)
        to.send(topic, b"[7]", key=b"item 7", partition=0)
        to.send(topic, b'{"item": 99, "features": [0,0,0,0,0,0,0,0,0.5]}', key=b"item 99", partition=0)
        to.send(topic, None, key=b"item 5", partition=0)
        to.close()
        until(lambda: 99 in models.catalogue.items and 5 not in models.catalogue.items)
        assert (len(models.catalogue.items), models.catalogues.unreadable) == (30, 2)
        to = producer(settings)
        to.send(topic, b'{"item": 99, "features": [0]}', key=b"item 99", partition=0)
        to.close()
        until(lambda: models.catalogues_refused == 1)
        assert len(client.post("/rank", {"user": "u"}).found["items"]) == 12
    with closing(CatalogueTopic(settings)) as again:
        again.read(30)
        assert len(again.entries.items) == 30


def test_lists_under_load_are_of_one_catalogue_and_none_goes_back(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogues, "FETCH_BYTES", 4096)  # so that a transaction comes in many pieces
    files = [write_npz(tmp_path / f"{n}.npz", items=300, seed=n) for n in range(SWAPS)]  # the same ids, other features
    numbers = {read_catalogue(file).version: n for n, file in enumerate(files)}
    held = [read_catalogue(file) for file in files]
    lists = [one.items[BUCKET.model().rank(one.recipe.contexts(one.held, np.empty(0)))].tolist() for one in held]
    publish_catalogue(settings, files[0])
    to, topic = transactional(settings, "test"), f"{settings.topic_prefix}catalogue"
    to.init_transactions()
    done, wrong, seen = threading.Event(), [], [[], []]
    with serving(settings, source=str(tmp_path), catalogue="kafka", refresh_s=0.001) as server:

        def ask(into):
            client = Client(server)
            while not done.is_set():
                status, found, _ = client.post("/rank", {"user": "u"})
                number = numbers.get(found.get("catalogue"))
                if status != 200 or number is None or found["items"] != lists[number]:
                    wrong.append(found)
                else:
                    into.append(number)

        threads = [threading.Thread(target=ask, args=(into,)) for into in seen]
        for thread in threads:
            thread.start()
        for number, file in enumerate(files):
            to.begin_transaction()
            for key, line in read_entries(file).lines().items():
                to.send(topic, line.encode(), key=key.encode(), partition=0)
            to.commit_transaction()
            until(lambda now=number: numbers.get(server.service.models.catalogue.version) == now)
        done.set()
        for thread in threads:
            thread.join()
    to.close()
    assert wrong == []
    assert all(into == sorted(into) for into in seen)
    assert len({number for into in seen for number in into}) > SWAPS / 4
