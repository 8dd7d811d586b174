# Everything runs in .venv, .venvs and js/node_modules; nothing outside the checkout is touched, except
# that `make browser` installs Chromium with apt-get.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODULES := js/node_modules/.package-lock.json
BUNDLE := src/gradwalk/assets/widget.js
SOURCES := $(shell find js -path js/node_modules -prune -o \( -name '*.ts' -o -name '*.css' -o -name 'build.mjs' \) -print)
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PIP := -m pip install --quiet --constraint constraints.txt

# Dozens of processes import gradwalk: what the first compiles is kept for the others, also where the environment says no.
export PYTHONDONTWRITEBYTECODE =

# By file, and the slow browser tests, which come first by name, first; three at a time on two cores,
# because a browser test waits for half of its time. One thread each: torch would use every core.
JOBS ?= 3
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup build demo types lock format quick slow check check-python check-js check-prose test test-all test-js test-python test-browser \
  test-full test-others test-pythons test-torch test-colab test-integrations has-node has-python has-browser browser bench screenshots docs docs-live docs-links gallery release-check clean

help:            ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) build  ## Install everything into .venv and build the browser bundle

# Node 20 is the oldest with which the browser bundle builds.
has-node:
	@node -e 'process.exitCode = Number.parseInt(process.versions.node) < 20 ? 1 : 0' 2>/dev/null && command -v npm >/dev/null || \
	  { echo "gradwalk is built with Node 20 or newer, and npm: install them (https://nodejs.org) and run this again."; exit 1; }

has-python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo "gradwalk needs Python 3.10 or newer, with venv (Debian: python3-venv); PYTHON=... names another than $(PYTHON)."; exit 1; }

$(MODULES): js/package-lock.json | has-node
	cd js && npm ci --no-audit --no-fund
	@touch $@

$(BUNDLE): $(MODULES) $(SOURCES)
	cd js && npm run --silent build

build: $(BUNDLE)  ## Build the browser bundle

$(READY): pyproject.toml constraints.txt hatch_build.py | has-python $(BUNDLE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade 'pip>=25.1' hatchling editables
	$(BIN)/python $(PIP) --no-build-isolation --editable . --group dev
	@touch $@

lock: setup      ## Write constraints.txt anew: the newest releases that fit together, for Python 3.10 and newer
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" --all-extras $(patsubst %,--group %,dev bench models release docs) \
	  constraints.in pyproject.toml --output-file constraints.txt

demo: setup      ## Open the first notebook in JupyterLab
	@$(BIN)/jupyter labextension disable --level=sys_prefix @jupyterlab/apputils-extension:announcements 2>/dev/null
	$(BIN)/jupyter lab $(if $(SUDO),,--allow-root) \
	  --LabApp.default_url=/lab/tree/notebooks/01_first_graph.ipynb $(LAB)

format: setup    ## Format everything, and mend what the linters can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd js && npm run --silent format

types:           ## Write the TypeScript of the wire format anew, from the Python
	$(PYTHON) tools/wire_types.py

check: setup     ## Linters, type checkers and the prose check, on both sides
	$(MAKE) --no-print-directory -j2 --output-sync=target check-python check-js check-prose

check-python: setup
	$(BIN)/python tools/wire_types.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check-prose: setup
	$(BIN)/python tools/prose.py

check-js: build
	cd js && npm run --silent lint
	cd js && npm run --silent types

quick: setup     ## Check what changed since the last commit on main, in half a minute
	$(BIN)/python tools/quick.py

slow: setup      ## Write the list of slow tests anew, which `make quick` leaves out
	$(BIN)/python tools/slow_tests.py

# Two at a time, in this order: what fails early starts nothing else, and no core waits for the type checker.
test: setup      ## Run every check and every test without a browser
	$(MAKE) --no-print-directory -j2 --output-sync=target check-python check-js check-prose test-js test-python

test-js: build
	cd js && npm run --silent test

# The plus sign lets its progress through while it runs: what make collects is shown at the end.
test-python: setup
	+$(PYTEST) --ignore tests/e2e tests src

test-browser: setup has-browser  ## Run the tests in JupyterLab and in pages, with Chromium
	+$(PYTEST) tests/e2e

# What waits for a browser and what is installed leave a core to the other half.
test-all: test test-browser  ## All of that, and other hosts, the largest graphs, public models, other Pythons and torch
	$(MAKE) --no-print-directory -j2 --output-sync=target JOBS=2 test-full test-others

test-full: setup has-browser
	$(BIN)/python $(PIP) --group models
	$(PYTEST) -m full tests

test-others: setup
	$(MAKE) --no-print-directory test-pythons
	$(MAKE) --no-print-directory test-torch VERSION=oldest
	$(MAKE) --no-print-directory test-colab
	$(MAKE) --no-print-directory test-integrations

test-pythons: setup
	tests/other_pythons.sh

VERSION ?= newest

test-torch: setup  ## Run the tests without a browser with another torch: VERSION=2.14.1, oldest, newest
	tests/other_torch.sh $(VERSION)

test-colab: setup
	tests/colab_versions.sh

test-integrations: setup
	tests/integrations.sh

has-browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { echo "The browser tests need Chromium on the PATH: install it (Debian: make browser) and run this again."; exit 1; }

browser:         ## Install Chromium with apt-get, for the browser tests
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -qq -y chromium >/dev/null; }

bench: setup has-browser  ## Measure speed next to the peers; FULL=1 for all sizes and the results file
	@command -v dot >/dev/null || \
	  { echo "The benchmark needs Graphviz: install it (Debian: apt-get install graphviz) and run this again."; exit 1; }
	$(BIN)/python $(PIP) --group bench
	cd benchmarks && npm ci --no-audit --no-fund --silent && npm run --silent types && npm run --silent build
	$(BIN)/python benchmarks/report.py $(if $(FULL),--full)

screenshots: setup has-browser  ## Take the README's picture again, from a real JupyterLab
	$(BIN)/python tests/e2e/screenshots.py

SPHINX := $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet

docs: has-browser setup  ## Build the documentation site into docs/_build/html, and check it in Chromium
	$(BIN)/python $(PIP) --group docs
	$(SPHINX) docs docs/_build/html
	$(BIN)/python tools/check_site.py

docs-live: setup  ## Show the site, and build it again at every change
	$(BIN)/python $(PIP) --group docs
	$(BIN)/python -m sphinx_autobuild --ignore 'docs/_build/*' --watch src docs docs/_build/html

docs-links: docs  ## Look every link of the site up; needs a network
	DOCS_ONLINE=1 $(SPHINX) -b linkcheck docs docs/_build/links

gallery: setup   ## Draw the pictures of the gallery into docs/_build/gallery, to look at them
	$(BIN)/python tools/gallery.py docs/_build/gallery

release-check: setup  ## Build wheel and sdist, check both, and draw with the wheel where there is no Node
	rm -rf dist .venvs/release
	$(BIN)/python $(PIP) --group release
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venvs/release
	.venvs/release/bin/python $(PIP) "$$(ls $$PWD/dist/*.whl)[export]"
	env -i HOME="$$HOME" PATH=$$PWD/.venvs/release/bin .venvs/release/bin/python -I tests/draws.py

clean:           ## Remove everything that was installed or built
	rm -rf $(VENV) .venvs js/node_modules src/gradwalk/assets docs/_build dist test-results
