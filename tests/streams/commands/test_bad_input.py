"""Files and options that nobody should give: one line that says what was wanted, and an exit code; never a trace."""

import gzip
import json
import logging

import pytest

from streams.commands.main import main

DEEP = "[" * 100_000
DIGITS = "9" * 5_000
TOPIC = {"topic": "samples", "topic_id": "t", "partitions": 1, "format": "glimpse-archive-1"}
LIST = '{"query": "q", "items": [1, 2], "clicks": [0, 1]}\n'
FILES = {
    "latin.jsonl": "é".encode("latin-1"),
    "deep.jsonl": DEEP.encode(),
    "deep.jsonl.gz": gzip.compress(DEEP.encode()),
    "digits.jsonl": f'{{"item": {DIGITS}, "context": [1, 2]}}'.encode(),
    "huge.jsonl": f'{{"item": 1, "context": [{10**400}, 0]}}'.encode(),
    "good.jsonl": b'{"item": 1, "context": [1, 2]}',
    "lists.jsonl": LIST.encode() * 20,
    "deep.toml": b"a = " + DEEP.encode(),
    "deep.json": DEEP.encode(),
    "huge.json": f'{{"examination": [[{10**400}]]}}'.encode(),
    "deep/samples/topic.json": DEEP.encode(),
    "endless/samples/topic.json": json.dumps(TOPIC | {"partitions": 10**11}).encode(),
    "no-number/samples/topic.json": json.dumps(TOPIC | {"partitions": True}).encode(),
    "misnamed/samples/topic.json": json.dumps(TOPIC).encode(),
    "misnamed/samples/0/first.avro": b"Obj\x01",
    "standing/samples/topic.json": json.dumps(TOPIC).encode(),
    "standing/standing.json": DEEP.encode(),
}
CASES = {
    "candidates that are not UTF-8": ("rank main latin.jsonl --source models", "line 1 or one soon after is not UTF-8"),
    "candidates nested without end": ("rank main deep.jsonl --source models", "line 1 is not JSON: nested too deeply"),
    "an item of 5,000 digits": ("rank main digits.jsonl --source models", "line 1 is not JSON: Exceeds the limit"),
    "a context beyond every float": ("rank main huge.jsonl --source models", "Number out of range - at `$.context[0]`"),
    "a source that is no address": ("rank main good.jsonl --source redis://[", "this is no address"),
    "a log nested without end": ("fit deep.jsonl.gz", "line 1 is not JSON: nested too deeply"),
    "settings nested without end": ("lag --config deep.toml", "is nested too deeply"),
    "a table nested without end": ("replay misnamed --examination deep.json", "nested too deeply"),
    "a table beyond every float": ("replay misnamed --examination huge.json", "too large"),
    "an archive nested without end": ("replay deep", "nested too deeply"),
    "an archive of too many partitions": ("replay endless", "must say from 1 to 10000 partitions, not 100000000000"),
    "an archive of true partitions": ("replay no-number", "must say from 1 to 10000 partitions, not True"),
    "a segment without its offset": ("replay misnamed --samples", "its name must be its first offset in 20 digits"),
    "an offset of 5,000 digits": (f"replay misnamed --from samples:0:{DIGITS}", "neither a time"),
    "a version of 5,000 digits": (f"replay misnamed --to-snapshot main:1.{DIGITS}", "names no snapshot"),
    "worlds of an experiment without any": ("experiment coverage --seeds 3", "has no worlds to seed"),
    "rounds of an experiment without any": ("experiment day-one --rounds 100", "takes no --rounds"),
    "a negative seed": ("demo --seed -1", "should be greater than or equal to 0"),
    "a bound beyond every score": ("demo --alpha 1e308", "should be less than or equal to 1000000"),
    "a negative seed of a judge": (
        "evaluate lists.jsonl --policy models --seed -1",
        "should be greater than or equal to 0",
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "glimpse.toml").write_text("[buckets.main]\ndim = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("kafka"), "handlers", [])
    monkeypatch.setenv("COLUMNS", "400")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("words, said", CASES.values(), ids=CASES)
def test_bad_input_is_a_few_words_and_an_exit_code(folder, monkeypatch, capsys, words, said):
    monkeypatch.setattr("sys.argv", ["glimpse", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code in (1, 2)
    assert said in told
    assert len(told) < 2_500
