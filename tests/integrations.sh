#!/usr/bin/env bash
# Runs the tests of the callbacks with the training libraries, in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/environments.sh

install integrations .venv/bin/python --group integrations
TESTS=tests/integrations run_tests integrations -m integrations "$@"
