"""The reader that ARCHITECTURE.md gives to other languages, run on a Redis that the real learner has filled."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import redis
from jobs import Jobs, wait_until
from sample_batches import SampleWriter, all_algorithms

from streams.ranker import Ranker

ROOT = Path(__file__).parents[2]


def test_twenty_lines_of_fastavro_and_redis_read_what_was_learned(settings_for, redis_url, tmp_path):
    paper = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = paper.partition("### Snapshots for rankers in other languages\n")[2].partition("\n## ")[0]
    [program] = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    imported = {node.module for node in ast.walk(ast.parse(program)) if isinstance(node, ast.ImportFrom)}
    imported |= {
        name.name for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Import) for name in node.names
    }
    assert {name.partition(".")[0] for name in imported} == {"struct", "io", "redis", "fastavro"}
    names = {}
    exec(compile(program, "ARCHITECTURE.md", "exec"), names)
    settings = settings_for(buckets=all_algorithms(), redis=redis_url, publish_every_s=0.3)
    schema = str(ROOT / "schemas" / "snapshot.avsc")

    def read(bucket):
        return names["read_model"](redis_url, bucket, settings.topic_prefix, schema)

    with pytest.raises(LookupError, match="no snapshot under"):
        read("ubm")
    writer, jobs = SampleWriter(settings), Jobs(settings, tmp_path)
    try:
        writer.write()
        jobs.start("learn")
        store, key = redis.Redis.from_url(redis_url), f"glimpse:{settings.topic_prefix}parameters:"
        wait_until(
            lambda: all(
                store.exists(key + name) and (any(read(name)[2]) or not len(model.theta))
                for name, model in writer.models.items()
            ),
            timeout_s=60,
            jobs=jobs,
        )
    finally:
        jobs.close()
        writer.close()
    for name, model in writer.models.items():
        version, scale, theta = read(name)
        assert np.array_equal(theta, model.theta), name  # bit for bit
        with Ranker.from_redis(settings, bucket=name, refresh_s=None) as ranker:
            assert ranker.version == version
            if model.dim:
                candidates = np.random.default_rng(1).uniform(-0.5, 0.5, (5, model.dim))
                np.testing.assert_allclose(candidates @ theta / scale, ranker.predict(candidates), rtol=1e-12)
                state, upper = ranker.snapshot.state_arrays, np.triu_indices(model.dim)
                sums = (state["gram_high"] * 2.0**40 + state["gram_low"]) / 2.0**32
                sums[upper[0] == upper[1]] += ranker.snapshot.ridge
                np.testing.assert_array_equal(sums, model.gram[upper])
    with pytest.raises(ValueError, match="another schema"):
        names["read_model"](redis_url, "ubm", settings.topic_prefix, str(ROOT / "schemas" / "progress.avsc"))
