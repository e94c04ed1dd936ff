"""Where bytes of others come in: what may be done with them, and the errors that they may end in."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from metarank_events import INTERACTION, RANKING
from msgspec import structs

from schemas.codec import SchemaError, decode, encode
from schemas.records import Click, DeadLetter, Impression, Progress, SampleBatch, Snapshot
from streams.dashboard.job.feed import State
from streams.dashboard.job.server import DashboardServer
from streams.embedded import read_standing
from streams.events import MetarankEvents, read_events
from streams.join import BadCommit, Commit
from streams.lag.commit_records import Committed, committed_of, group_partition_of, position_of
from streams.logs import Archive, ArchiveError, LogBlock, LogRecord
from streams.logs.segment import Segment
from streams.offline.logs import LogError, read_logs
from streams.parameters import SnapshotCorrupt, frozen_model, take_snapshot
from streams.parameters.snapshot import Newest, load_snapshot
from streams.rank.catalogue_file import catalogue_of
from streams.rank.choice import choose
from streams.rank.requests import CandidateError, rank_request, read_candidates
from streams.settings import Bucket, ExaminationError, LogPair, Settings, SettingsError, load, read_examination
from streams.web import Health

TABLE = np.tril(np.full((2, 2), 0.5))
BUCKETS = {
    "ubm": Bucket("ubm", "ubm-linucb", 2, 2, TABLE),
    "dcm": Bucket("dcm", "dcm-linucb", 2, 2),
    "pbm": Bucket("pbm", "pbm-ucb", 0, 2, TABLE[:, 0].copy()),
}
WISHED = {**BUCKETS, "drawn": Bucket("drawn", "c2ucb", 2, 2, policy="plackett-luce"), "lot": Bucket("lot", "random", 2)}
CLICK = {"type": "click", "impression_id": "i", "session_id": "s", "position": 2, "clicked_at_ms": 9}
SHOWN = {"type": "impression", "impression_id": "i", "session_id": "s", "bucket": "b", "user_id": "u"}
LIST = {
    "query": "q",
    "session": "s",
    "items": [7, 8],
    "clicks": [0, 1],
    "contexts": [[0.5], [1]],
    "propensities": [1, 1],
    "candidate_items": [7, 8, 9],
    "candidate_contexts": [[0.5], [1], [0]],
}
SHOP = [
    {"recipe": ["constant", "item"]},
    *({"item": n, "features": [n / 10], "tags": {"kind": "hat"}} for n in range(5)),
    {"user": "u", "features": []},
]
WISH = {
    "user": "u",
    "session": "s",
    "size": 2,
    "candidates": {"tags": {"kind": ["hat"]}, "without": [3]},
    "explore": "off",
    "user_features": [],
    "namespace": "",
    "bucket_before": "dcm",
}
TOPIC = {"topic": "samples", "topic_id": "t", "partitions": 1, "format": "glimpse-archive-1"}
TOML = """
kafka = "a:1,b:2"
redis = "redis://h:1/0"
wait_s = 3.5
partitions = 4
timestamps = "CreateTime"
kafka_security = "SASL_PLAINTEXT"
[buckets.a]
algorithm = "pbm-ucb"
examination = [0.9, 0.5]
ridge = 1.0
[buckets."b"]
examination = [[1, 0], [0.5, 0.5]]
context_scale = 2
"""
ENVIRONMENT = (
    "GLIMPSE_KAFKA=a:1\nGLIMPSE_REDIS=redis://h:1/0\nGLIMPSE_WAIT_S=1e3\nGLIMPSE_KAFKA_PASSWORD=x\nGLIMPSE_WEB_PORT=1"
)


class Target(NamedTuple):
    """One border: bytes to begin with, and who takes any others without more than the errors it names."""

    seeds: Callable[[], Iterable[bytes]]
    take: Callable[[bytes], object]


@cache
def scratch() -> TemporaryDirectory[str]:
    """A folder that goes with the process."""
    return TemporaryDirectory(prefix="glimpse-fuzz-")


def file() -> Path:
    """A file to write what is to be read as a file."""
    return Path(scratch().name) / "glimpse.toml"


def records() -> list[bytes]:
    """One record of each kind, and a state of each kind."""
    eight = np.arange(2, dtype="<i8").tobytes()
    shown = Impression("i", "s", "b", "u", 1_750_000_000_000, eight, b"\0" * 16, 2, 1, 5)
    letter = DeadLetter("clicks", 0, 7, 1_750_000_000_000, b"key", None, "why")
    batch = SampleBatch(
        *("b", 1, eight, b"\1\2", b"\0\1", np.ones(2).tobytes(), b"\0" * 8, ["i"]),
        *(b"\2", b"\1", eight[:8], b"\0" * 4, eight[:8], b"\0" * 4, eight[:8]),
    )
    progress = Progress("t", 0, 5, 1_750_000_000_000, [], 5)
    drawn = np.ones(2, "<f4").tobytes()
    told = structs.replace(shown, split_version="v", catalogue="c", propensities=drawn)
    told = structs.replace(told, candidate_items=eight, candidate_contexts=shown.contexts)
    noted = replace(batch, split_version="v", user_hashes=eight[:8], propensities=drawn)
    events = (shown, told, Click("i", "s", 2, 1_750_000_000_000))
    return [*map(encode, (*events, letter, batch, noted, progress)), *snapshots()]


def snapshots() -> list[bytes]:
    """An empty state of each kind."""
    origin = {"samples_offset": 5, "topic_id": "t", "partition": 0, "published_at_ms": 1}
    return [encode(take_snapshot(bucket.model(), bucket, **origin)) for bucket in BUCKETS.values()]


def take_record(data: bytes) -> None:
    """A value on any topic."""
    with suppress(SchemaError):
        decode(data)


def take_snapshots(data: bytes) -> None:
    """What Redis, a file or the parameters topic holds."""
    newest = Newest()
    for part in data.split(b"\n--\n"):
        with suppress(SnapshotCorrupt, SchemaError):
            frozen_model(load_snapshot(part))
        with suppress(SnapshotCorrupt, SchemaError):
            found = decode(part)
            if isinstance(found, Snapshot):
                newest.add(found)


def take_block(data: bytes) -> None:
    """A block of an archive."""
    with suppress(SchemaError):
        LogBlock.decode(data).records()


def take_segment(data: bytes) -> None:
    """A file of an archive."""
    path = file().with_name(f"{0:020}.avro")
    path.write_bytes(data)
    with suppress(ArchiveError):
        for block, _ in Segment(path).blocks():
            block.records()
        Segment(path).end()


def segments() -> list[bytes]:
    """A file of two blocks, packed and not."""
    found = []
    for codec in ("null", "deflate"):
        path = file().with_name("seed.avro")
        segment = Segment.create(path, {"glimpse.topic": "clicks"}, codec=codec)
        block = LogBlock.of([LogRecord(5, 1, b"k", b"value"), LogRecord(7, 2, None, None)])
        found.append(path.read_bytes() + segment.pack(block) * 2)
    return found


def take_archive(data: bytes) -> None:
    """What a directory says about itself: topic.json, and how far an embedded runner was."""
    folder = file().with_name("archive")
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    for path in (folder / "samples" / "topic.json", folder / "standing.json"):
        path.write_bytes(data)
    with suppress(ArchiveError):
        Archive(folder).logs("samples")
    with suppress(ArchiveError):
        read_standing(Archive(folder))


def take_commit(data: bytes) -> None:
    """The metadata of two committed offsets, and what the broker's own log holds of them."""
    first, _, second = data.decode(errors="replace").partition("\n")
    with suppress(BadCommit):
        Commit.decode((5, first), (6, second or first))
    position_of(Committed(5, first), join=True)
    group_partition_of(data)
    committed_of(data)


def commits() -> list[bytes]:
    """A commit as a join writes it."""
    one, two = Commit.beginning(impressions=7, clicks=3).encode(LogPair("a", "b"))
    return [f"{one[1]}\n{two[1]}".encode()]


def take_toml(data: bytes) -> None:
    """A glimpse.toml."""
    file().write_bytes(data)
    with suppress(SettingsError):
        load(file(), environ={})


def take_environment(data: bytes) -> None:
    """Variables, one a line."""
    lines = data.decode(errors="surrogateescape").split("\n")
    variables = dict(
        line.partition("=")[::2] for line in lines if "\0" not in line and not line.startswith("GLIMPSE_CONFIG")
    )
    with suppress(SettingsError):
        load(environ=variables)


def take_table(data: bytes) -> None:
    """An examination table."""
    file().write_bytes(data)
    with suppress(ExaminationError):
        read_examination(file())


def take_candidates(data: bytes) -> None:
    """The candidates of glimpse rank."""
    with suppress(CandidateError):
        read_candidates(data.decode(errors="replace").splitlines())


def take_events(data: bytes) -> None:
    """The events of glimpse produce."""
    with suppress(ValueError):
        for event in read_events(data.decode(errors="replace").splitlines()):
            encode(event)


def take_wish(data: bytes) -> None:
    """A request for a list, as glimpse serve gets it; only these errors have an answer there."""
    shop = catalogue_of(map(json.dumps, SHOP))
    with suppress(ValueError, LookupError):
        wanted = rank_request(data)
        for bucket in WISHED.values():
            with suppress(ValueError, LookupError):
                found = choose(wanted, bucket, bucket.model(), shop, impression_id="i")
                assert len(found.items) == len(found.contexts) <= bucket.positions


def take_foreign(data: bytes) -> None:
    """Metarank's events, as glimpse serve and produce get them."""
    metarank = MetarankEvents(lambda user: BUCKETS["pbm" if len(user) % 2 else "dcm"])
    with suppress(ValueError):
        for event in read_events(data.decode(errors="replace").splitlines(), foreign=metarank.event_of):
            encode(event)


def take_catalogue(data: bytes) -> None:
    """A catalogue of JSON lines."""
    with suppress(ValueError):
        catalogue_of(data.decode(errors="replace").splitlines())


def take_lists(data: bytes) -> None:
    """The click log of glimpse fit."""
    file().write_bytes(data)
    with suppress(LogError):
        read_logs(file())


@cache
def pages() -> list[int]:
    """The ports of a dashboard and of a job's health page that run from now on."""
    state = State(Settings(buckets=BUCKETS), source_name="a log", consumers=False)
    servers = [DashboardServer(state), Health(live=lambda: None, ready=lambda: "no", metrics=lambda: "a 1\n")]
    for server in servers:
        server.start()
    return [server.port for server in servers]


def take_request(data: bytes) -> None:
    """A request to a page: an answer that is no failure of ours, or none; and the next client is served."""
    for port in pages():
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client, suppress(ConnectionError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(1 << 16)
            assert not answer or re.match(rb"HTTP/\d\.\d (?:[2-4]\d\d|503) ", answer), answer[:200]
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        line.request("GET", "/nowhere")
        assert line.getresponse().status == 404
        line.close()


def requests() -> list[bytes]:
    """What browsers and Prometheus send."""
    paths = ("/", "/livez", "/metrics", "/letters?reason=1", "/letters/clicks-0-7", "/app.js", "/?token=x")
    head = "Host: localhost\r\nCookie: a=b\r\nContent-Length: 0\r\n\r\n"
    return [f"GET {path} HTTP/1.1\r\n{head}".encode() for path in paths]


def as_json(*values: object) -> Callable[[], list[bytes]]:
    """Return seeds of JSON, each alone."""
    return lambda: [json.dumps(value).encode() for value in values]


TARGETS = {
    "record": Target(records, take_record),
    "snapshot": Target(lambda: [*snapshots(), b"\n--\n".join(snapshots())], take_snapshots),
    "block": Target(lambda: [LogBlock.of([LogRecord(5, 1, b"k", b"value")]).encode()], take_block),
    "segment": Target(segments, take_segment),
    "archive": Target(as_json(TOPIC, {"now_ms": 1, "commits": [[[1, "{}"], [2, "{}"]]], "outputs": []}), take_archive),
    "commit": Target(commits, take_commit),
    "toml": Target(lambda: [TOML.encode()], take_toml),
    "environment": Target(lambda: [ENVIRONMENT.encode()], take_environment),
    "table": Target(as_json({"positions": 2, "examination": TABLE.tolist(), "observations": [[1]]}), take_table),
    "candidates": Target(as_json({"item": 7, "context": [0.5, 0.1]}), take_candidates),
    "events": Target(as_json(CLICK, SHOWN | {"shown_at_ms": 1, "items": [7, 8], "contexts": [[1], [2]]}), take_events),
    "wish": Target(as_json(WISH, {"user": "u", "candidates": {"items": [1], "contexts": [[0.5, 1]]}}), take_wish),
    "foreign": Target(lambda: [json.dumps(RANKING).encode() + b"\n" + json.dumps(INTERACTION).encode()], take_foreign),
    "catalogue": Target(lambda: ["\n".join(map(json.dumps, SHOP)).encode()], take_catalogue),
    "lists": Target(lambda: [json.dumps(LIST).encode(), gzip.compress(json.dumps(LIST).encode(), mtime=0)], take_lists),
    "request": Target(requests, take_request),
}
