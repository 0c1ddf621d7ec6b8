# Each target makes .venv and installs what it needs by itself. Python 3.11 or newer, pip and make are enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test explore lint bench clean
.DELETE_ON_ERROR:

demo: .venv/installed-core
	$(BIN)/podium demo

test: .venv/installed-dev
	$(BIN)/python -m pytest $(PYTEST_ARGUMENTS)

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

.venv/installed-core: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ .venv/installed-core

.venv/installed-bench: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@ .venv/installed-core .venv/installed-dev
