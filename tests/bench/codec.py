"""What a record costs to read and write, beside bare fastavro in the same run.

Bare fastavro reads a dict, checks nothing and trusts every length; ours is strict and gives a frozen record.
Prints `name value unit` per line. The short cut of schemas/fast.py stands as long as its ratio is well below 1.
"""

import sys
from collections.abc import Callable
from io import BytesIO
from time import perf_counter

import numpy as np
from fastavro import schemaless_reader, schemaless_writer

from schemas.codec import Codec, decode, encode
from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import Click, Impression, Record, SampleBatch
from schemas.strict import check

K, DIM, LISTS = 12, 10, 800
NOW = 1_731_700_000_000


def impression(random: np.random.Generator) -> Impression:
    contexts = random.normal(size=(K, DIM)).astype("<f4")
    items = random.integers(0, 1 << 40, K, dtype=np.int64)
    ids = ("6f1c2e8e-8a5d-4f0e-9d0b-3b6d7c1f2a10", "session-000042", "ubm-linucb", "user-000017")
    return Impression(*ids, NOW, items.tobytes(), contexts.tobytes(), K, 1, 123_456)


def batch(random: np.random.Generator) -> SampleBatch:
    rows = K * LISTS
    return SampleBatch(
        *("ubm-linucb", DIM, bytes(8 * rows), b"\1" * rows, bytes(rows), bytes(8 * rows), random.bytes(4 * DIM * rows)),
        *([f"6f1c2e8e-8a5d-4f0e-9d0b-{n:012x}" for n in range(LISTS)], bytes([K]) * LISTS, b"\1" * LISTS),
        *(bytes(width * LISTS) for width in (8, 4, 8, 4, 8)),
    )


def fastest(calls: int, *works: Callable[[], object], repeats: int) -> list[float]:
    """Return the microseconds of one call of each work, at its fastest; the works take turns, so noise meets all."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for index, work in enumerate(works):
            start = perf_counter()
            for _ in range(calls):
                work()
            best[index] = min(best[index], perf_counter() - start)
    return [seconds / calls * 1e6 for seconds in best]


def reading(name: str, record: Record, *, calls: int, per: int, repeats: int) -> None:
    """Bare fastavro to a dict, fastavro to a record, the strict way, and what decode really does."""
    data, cls = encode(record), type(record)
    writer = writer_of(PLAIN.get(cls, SCHEMAS[cls]))

    def bare() -> object:
        source = BytesIO(data)
        source.seek(10)
        return schemaless_reader(source, writer.schema, None)

    def to_record() -> object:
        return cls(**bare())

    def strict() -> object:
        check(writer.expanded, data, 10)
        return to_record()

    times = fastest(calls, bare, to_record, strict, lambda: decode(data, cls), repeats=repeats)
    for kind, time in zip(("fastavro-dict", "fastavro-record", "fastavro-strict", "decode"), times, strict=True):
        print(f"read-{name}-{kind} {time / per:.2f} us")
    print(f"read-{name}-decode-to-fastavro-dict {times[3] / times[0]:.2f} ratio")


def writing(name: str, record: Record, *, calls: int, per: int, repeats: int) -> None:
    """Bare fastavro from a dict, and encode, which checks what it wrote."""
    schema = writer_of(PLAIN.get(type(record), SCHEMAS[type(record)])).schema
    row = {field["name"]: getattr(record, field["name"]) for field in schema["fields"]}

    def bare() -> object:
        out = BytesIO()
        schemaless_writer(out, schema, row)
        return out.getvalue()

    times = fastest(calls, bare, lambda: encode(record), repeats=repeats)
    print(f"write-{name}-fastavro-dict {times[0] / per:.2f} us")
    print(f"write-{name}-encode {times[1] / per:.2f} us")


def main(quick: bool) -> None:
    random = np.random.default_rng(1)
    events = {"impression": impression(random), "click": Click("6f1c2e8e-8a5d-4f0e-9d0b-3b6d7c1f2a10", "s-42", 3, NOW)}
    repeats = 3 if quick else 15
    for name, record in events.items():
        reading(name, record, calls=5_000, per=1, repeats=repeats)
        writing(name, record, calls=5_000, per=1, repeats=repeats)
    reading("samples-per-list", batch(random), calls=10, per=LISTS, repeats=repeats)
    writing("samples-per-list", batch(random), calls=10, per=LISTS, repeats=repeats)
    shown = events["impression"]
    framed = Codec(confluent={7: SCHEMAS[Impression]})
    data = framed.encode(shown)
    [time] = fastest(5_000, lambda: framed.decode(data, Impression), repeats=repeats)
    print(f"read-impression-confluent {time:.2f} us")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
