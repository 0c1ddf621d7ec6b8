# Each target makes .venv and installs what it needs by itself. Python 3.11 or newer, pip and make are enough.
PYTHON ?= python3
BIN := .venv/bin

# Small parts of the suite for other compiler settings, about a minute each.
BOUNDS_TESTS := $(addprefix tests/learners/trees/,test_growing.py test_bundling.py test_scoring.py) tests/learners/svm/test_pairs.py \
	tests/metrics/test_worked_numbers.py
PYTHON_TESTS := tests/metrics/test_laws.py tests/metrics/test_worked_numbers.py $(addprefix tests/objectives/,test_pairwise.py test_listwise.py) \
	-k "not every_permutation and not long_list and not longer_lists"

# Those that a newer Python can change: threads, and what they share.
NEWER_TESTS := $(addprefix tests/_runtime/,test_once.py test_memo.py test_threads.py) $(addprefix tests/search/,test_concurrency.py retrieval/test_terms.py)

.PHONY: demo test test-bounds test-gpu test-python test-newer test-wheel docs test-docs explore lint bench clean
.DELETE_ON_ERROR:

demo: .venv/installed-demo
	$(BIN)/podium demo

# Files of tests go to one process per core: most tests use one core, and compiling does.
test: .venv/installed-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(PYTEST_ARGUMENTS)

# Indices checked in compiled code. Kernels that were compiled without the checks must not be reused: another cache.
test-bounds: .venv/installed-dev
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.venv/kernels-bounds $(BIN)/python -m pytest $(BOUNDS_TESTS) $(PYTEST_ARGUMENTS)

# Trees on the GPU of this machine, against the CPU: the laws over combinations, and files compared.
test-gpu: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[gpu]'
	PODIUM_TEST_DEVICE=cuda $(BIN)/python -m pytest tests/learners/trees/test_cuda.py $(PYTEST_ARGUMENTS)

# Kernels run as Python. numpy warns of integers that wrap around, as those of random numbers are meant to.
test-python: .venv/installed-dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(PYTHON_TESTS) -W "ignore:overflow encountered in scalar:RuntimeWarning" $(PYTEST_ARGUMENTS)

# The newest Python that is installed besides that of .venv, in an environment of its own.
test-newer:
	@python=$$(.ci/newer-python) && if [ -z "$$python" ]; then \
		echo "No Python from 3.12 on is installed: the tests of threads ran with that of .venv only."; \
	else set -ex; "$$python" -V; "$$python" -m venv .venv/newer; \
		.venv/newer/bin/python -m pip install --quiet --editable . 'pytest>=8' 'hypothesis>=6.100'; \
		.venv/newer/bin/python -m pytest $(NEWER_TESTS) $(PYTEST_ARGUMENTS); fi

# The wheel without extras in an environment of its own, and the demo run from it.
test-wheel: | .venv/bin/python
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && set -ex && \
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir "$$folder" . && \
	$(BIN)/python -m venv "$$folder/venv" && \
	"$$folder/venv/bin/python" -m pip install --quiet "$$folder"/podium-*.whl && \
	cd "$$folder" && env -u PYTHONPATH "$$folder/venv/bin/podium" demo

# The site in build/site; every link and anchor checked.
docs: .venv/installed-docs
	$(BIN)/python docs/site/build.py

# The same, looked at in Chromium where there is one.
test-docs: docs .venv/installed-dev
	PODIUM_SITE=build/site $(BIN)/python -m pytest tests/test_site.py $(PYTEST_ARGUMENTS)

explore: .venv/installed-dev
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -m hypothesis $(PYTEST_ARGUMENTS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed-bench
	$(BIN)/python benchmarks/run_all.py

clean:
	rm -rf .venv dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Podium needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .venv

.venv/installed-demo: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[report,serve]'
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ .venv/installed-demo

.venv/installed-docs: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ .venv/installed-demo

.venv/installed-bench: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@ .venv/installed-demo .venv/installed-dev
