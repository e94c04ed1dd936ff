"""A coverage-guided fuzzer of one border, by Atheris: python tests/soak/fuzz.py TARGET FOLDER SECONDS.

FOLDER keeps what was found interesting; bytes that end in an error nobody named are left there as crash-….
"""

import logging
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["schemas", "streams"]):
    from fuzz_targets import TARGETS

if __name__ == "__main__":
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    logging.disable()
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", "-timeout=10", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *options, "-max_len=4096", "-verbosity=0", str(folder)], TARGETS[name].take)
    atheris.Fuzz()
