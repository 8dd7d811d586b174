# Everything runs in .venv and js/node_modules; nothing outside the checkout is touched, except that
# `make test` installs Chromium with apt-get when there is none and it may.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODULES := js/node_modules/.package-lock.json
BUNDLE := src/gradwalk/static/widget.js
SOURCES := $(shell find js -path js/node_modules -prune -o \( -name '*.ts' -o -name '*.css' -o -name 'build.mjs' \) -print)

.PHONY: help setup build demo types check test test-js test-python test-browser browser bench screenshots clean

help:            ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) build  ## Install everything into .venv and build the browser bundle

$(MODULES): js/package-lock.json
	cd js && npm ci --no-audit --no-fund
	@touch $@

$(BUNDLE): $(MODULES) $(SOURCES)
	cd js && npm run --silent build

build: $(BUNDLE)  ## Build the browser bundle

$(READY): pyproject.toml constraints.txt hatch_build.py | $(BUNDLE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' hatchling editables
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable . --group dev
	@touch $@

demo: setup      ## Open the first notebook in JupyterLab
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB) notebooks/01_first_graph.ipynb

types:           ## Write the TypeScript of the wire format anew, from the Python
	$(PYTHON) tools/wire_types.py

check: setup     ## Linters and type checkers, on both sides
	$(BIN)/python tools/wire_types.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd js && npm run --silent lint
	cd js && npm run --silent types

test-js: build
	cd js && npm run --silent test

test-python: setup
	$(BIN)/python -m pytest --ignore tests/e2e src tests

test-browser: setup browser
	$(BIN)/python -m pytest tests/e2e

test: check test-js test-python test-browser  ## Run every check and every test

browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -qq -y chromium >/dev/null; } || \
	  { echo "The browser tests need Chromium: install it (Debian: apt-get install chromium) and run this again."; exit 1; }

bench: setup browser  ## Measure speed next to the peers; FULL=1 for all sizes and the results file
	@command -v dot >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -qq -y graphviz >/dev/null; } || \
	  { echo "The benchmark needs Graphviz: install it (Debian: apt-get install graphviz) and run this again."; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	cd benchmarks && npm ci --no-audit --no-fund --silent && npm run --silent types && npm run --silent build
	$(BIN)/python benchmarks/report.py $(if $(FULL),--full)

screenshots: setup browser  ## Take the README's picture again, from a real JupyterLab
	$(BIN)/python tests/e2e/screenshots.py

clean:           ## Remove everything that was installed or built
	rm -rf $(VENV) js/node_modules src/gradwalk/static dist
