"""From a list's close to a ranker that has learned from it, with a snapshot every half second.

Prints the median and the 99th percentile at 1,000 lists a second and at 8,000, and the rate that was really sent, which
a busy machine may not reach. `python tests/bench/latency.py [RATE …]`: half of what throughput.py finds, for example.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from latency import seconds_to_rankers  # noqa: E402
from traffic import DIM, K  # noqa: E402

from streams.broker import create_topics  # noqa: E402
from streams.local.kafka import LocalKafka  # noqa: E402
from streams.settings import Bucket, Settings  # noqa: E402


def run(bootstrap: str, folder: Path, rate: int) -> None:
    """Print what lists wait at one rate."""
    folder.mkdir()
    settings = Settings(
        kafka=bootstrap,
        buckets={"main": Bucket("main", "c2ucb", DIM, K)},
        wait_s=2.0,
        lateness_s=5.0,
        partitions=4,
        publish_every_s=0.5,
        topic_prefix=f"rate-{rate}-",
        timestamps="CreateTime",
        web_port=0,
        join_web_port=0,
    )
    create_topics(settings)
    late, sent = seconds_to_rankers(settings, folder, rate=rate, seconds=15)
    print(f"sent_at_{rate} {sent:.0f} lists/s", flush=True)
    for name, share in (("median", 50), ("p99", 99)):
        print(f"close_to_ranker_{name}_at_{rate} {np.percentile(late, share):.2f} s", flush=True)


def main(rates: list[int]) -> None:
    """Start a broker, and measure at each rate."""
    with tempfile.TemporaryDirectory() as place:
        broker = LocalKafka(Path(place) / "kafka", heap_mb=1024)
        broker.start()
        try:
            for rate in rates:
                run(broker.bootstrap, Path(place) / str(rate), rate)
        finally:
            broker.stop()


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1_000, 8_000])
