# The commands people type. Everything runs in .venv, which each target makes by itself.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test soak lint bench clean
.DELETE_ON_ERROR:
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, each of which would compile every source again

demo: .venv/installed ## what each learner makes of an old ranker's log, then the closed loop; no server needed
	$(BIN)/glimpse demo

test: .venv/installed lint ## every test; a file's tests stay together, those that measure time run alone at the end
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not quiet' --numprocesses 3 --dist loadfile --no-loadscope-reorder
	$(BIN)/pytest -m quiet

soak: .venv/installed ## the long forms of the tests that break things, and their short forms with the other client; hours
	$(BIN)/pytest tests/soak
	TEST_KAFKA_CLIENT=confluent OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not quiet' tests/streams/broker tests/streams/join tests/pipeline tests/faults

lint: .venv/installed ## format, lint, what imports what, and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYTHONPATH=tests/support $(BIN)/lint-imports
	$(BIN)/mypy

bench: .venv/installed .venv/peers/tried ## every benchmark, peers beside us in the same run
	@for file in tests/bench/*.py; do echo "# $$file"; $(BIN)/python $$file || exit 1; done

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv/peers/tried: .venv/installed tests/bench/peers.txt # frameworks to compare with, where they install
	$(PYTHON) -m venv .venv/peers
	-.venv/peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/bench/peers.txt
	touch $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
