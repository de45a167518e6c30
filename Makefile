# Everything that is done with sfkv's source. Each target installs what it needs.
PYTHON := .venv/bin/python
SETUP_SOURCES := pyproject.toml .ci/setup

.PHONY: help demo test test-all both-engines sanitizers slow asan fuzz valgrind build engine bench lint docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo: build  ## the main job on real data: flights, counted through two kill -9
	$(PYTHON) examples/flights.py

test slow: export SFKV_FAULTS := 1
test: build  ## the quick tests, under ten minutes
	$(PYTHON) -m pytest -n 2

test-all:  ## all of it, unattended, one to two hours on two cores: both engines, slow tests, sanitizers, fuzzing, benchmarks, docs
	SFKV_ENGINE=system $(MAKE) lint
	$(MAKE) engine
	$(MAKE) -j 2 both-engines sanitizers

both-engines:
	SFKV_ENGINE=system $(MAKE) test slow
	SFKV_ENGINE=tuned $(MAKE) test slow
	SFKV_ENGINE=tuned $(MAKE) bench ARGS="--keys 100000 --rounds 1"
	$(MAKE) docs

sanitizers:
	$(MAKE) asan
	$(MAKE) valgrind
	$(MAKE) fuzz

slow: build  ## the slow tests: each I/O call fails, 200 times kill -9, many random operations
	$(PYTHON) -m pytest -m slow -n 3

asan: .venv/ready  ## the tests under AddressSanitizer and UBSan, against the system's engine
	.ci/asan

fuzz: .venv/ready  ## fuzz what reads stored and foreign bytes, ten minutes (SFKV_FUZZ_SECONDS=60)
	.ci/fuzz

valgrind: .venv/ready  ## the lifetime tests under valgrind's memcheck
	.ci/valgrind

build: .venv/ready  ## compile the extension modules in place (SFKV_ENGINE=system or tuned, DEBUG=1)
	SFKV_DEBUG=$(DEBUG) $(PYTHON) setup.py -q build_ext --inplace

engine:  ## build the tuned RocksDB, about six CPU minutes; later builds take it by themselves
	.ci/engine

bench: .venv/ready  ## measure the operations beside the engine's floor and other stores (ARGS="--only value_get_many --batch 1024")
	-$(PYTHON) -m pip install -q --disable-pip-version-check "sfkv[bench]"  # a store that cannot be had is left out
	SFKV_FLOOR=1 $(PYTHON) setup.py -q build_ext --inplace
	$(PYTHON) benchmarks/run.py $(ARGS)

lint: build  ## style and types
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy.stubtest --ignore-missing-stub --mypy-config-file pyproject.toml sfkv._cells sfkv._live sfkv._store sfkv._core sfkv._memory sfkv._table sfkv._rows sfkv._bundle sfkv._scan sfkv._list sfkv._map sfkv._fold sfkv._batch

docs: build  ## the documentation site, into build/docs
	$(PYTHON) -m pip install -q --disable-pip-version-check "sfkv[docs]"  # sfkv itself is there: only what the group lacks
	$(PYTHON) -m sphinx -q -W --keep-going -E docs build/docs

clean:  ## remove what was built, but no engine
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find sfkv benchmarks tests -name "*.so" -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: $(SETUP_SOURCES)
	.ci/setup
