"""Snapshots and catalogues replaced under load: a list is of one model and one catalogue, never of older ones."""

import threading
from pathlib import Path

import numpy as np
from ranking import Client, serving, write_npz
from sample_batches import make_batch

from schemas.codec import encode
from streams.parameters import DirectoryParameters, take_snapshot
from streams.rank import read_catalogue
from streams.settings import Bucket, Settings

SWAPS = 1000
BUCKET = Bucket("main", dim=10, positions=12, alpha=0.3)
MODELS = 20  # snapshots repeat their contents, under ever higher versions
CATALOGUES = 20
WAIT_S = 10.0


class Publisher:
    """Writes the next snapshot and the next catalogue, and waits until they are in use."""

    def __init__(self, folder: Path, shop: Path) -> None:
        self.store, self.shop = DirectoryParameters(folder), shop
        self.models = []
        for seed in range(MODELS):
            model = BUCKET.model()
            model.learn(make_batch("main", 40, seed=seed, dim=10)[1])
            self.models.append(model)
        self.files = [write_npz(folder / f"{n}.npz", items=300, first=1000 * n, seed=n) for n in range(CATALOGUES)]
        self.catalogues = [read_catalogue(file) for file in self.files]
        self.bytes = [file.read_bytes() for file in self.files]

    def publish(self, number: int) -> None:
        snapshot = take_snapshot(
            self.models[number % MODELS], BUCKET, samples_offset=number, topic_id="t", partition=0, published_at_ms=0
        )
        self.store.put(snapshot, encode(snapshot))
        half = self.shop.with_suffix(".half")
        half.write_bytes(self.bytes[number % CATALOGUES])
        half.replace(self.shop)

    def expected(self, number: int, catalogue: int) -> list[int]:
        held = self.catalogues[catalogue]
        contexts = held.recipe.contexts(held.held, np.empty(0))
        return held.items[self.models[number % MODELS].rank(contexts, size=12)].tolist()


def test_a_thousand_swaps_under_load_leave_no_mixture_and_no_failure(tmp_path):
    publisher = Publisher(tmp_path, tmp_path / "shop.npz")
    publisher.publish(0)
    names = {catalogue.version: n for n, catalogue in enumerate(publisher.catalogues)}
    answers: list[list[tuple[int, int, tuple[int, ...]]]] = [[], []]
    failed: list[object] = []
    done = threading.Event()
    settings = Settings(kafka="127.0.0.1:9", buckets={"main": BUCKET})
    with serving(settings, source=str(tmp_path), catalogue=publisher.shop, refresh_s=0.0005) as server:

        def ask(into: list[tuple[int, int, tuple[int, ...]]]) -> None:
            client = Client(server)
            while not done.is_set():
                status, found, _ = client.post("/rank", {"user": "u"})
                if status != 200:
                    failed.append(found)
                    return
                into.append((found["version"][1], names[found["catalogue"]], tuple(found["items"])))

        threads = [threading.Thread(target=ask, args=(into,)) for into in answers]
        for thread in threads:
            thread.start()
        models, woken = server.service.models, threading.Event()
        for number in range(1, SWAPS + 1):
            publisher.publish(number)
            wanted = publisher.catalogues[number % CATALOGUES].version
            for _ in range(int(WAIT_S / 0.001)):
                if models.in_use("main").version == (1, number) and models.catalogue.version == wanted:
                    break
                woken.wait(0.001)
            else:
                raise AssertionError(f"swap {number} never came: {models.in_use('main').version}")
        done.set()
        for thread in threads:
            thread.join()
        assert models.catalogues_refused == 0
    assert failed == []
    for found in answers:
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(offsets), "a version went back"
        numbers = [catalogue_number(offset, catalogue) for offset, catalogue, _ in found]
        assert numbers == sorted(numbers), "a catalogue went back"
    seen = {one for found in answers for one in found}
    wrong = [one for one in seen if publisher.expected(one[0], one[1]) != list(one[2])]
    assert wrong == []
    assert len({offset for offset, _, _ in seen}) > SWAPS / 10


def catalogue_number(offset: int, catalogue: int) -> int:
    """Return which swap brought a catalogue that was seen with a snapshot: the same one, or one beside it."""
    [number] = [number for number in (offset - 1, offset, offset + 1) if number % CATALOGUES == catalogue]
    return number
