#!/usr/bin/env bash
# Runs the tests without a browser with another release of torch: tests/other_torch.sh 2.14.1. "oldest" is the
# oldest one that pyproject.toml allows; "newest" is what pip takes today, with nothing pinned.
# TESTS names some of the tests, and PYTHON another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/environments.sh

version=${1:?usage: tests/other_torch.sh VERSION}
CONSTRAINTS=$(mktemp)
trap 'rm -f "$CONSTRAINTS"' EXIT
case $version in
  newest) wanted=torch && rm -rf .venvs/torch-newest ;;
  oldest) wanted="torch==$(sed -nE 's/^ *"torch>=([0-9.]+)",/\1/p' pyproject.toml).*" ;;
  *) wanted="torch==$version" ;;
esac
# What torch brings along comes in the releases that it asks for.
[ "$version" = newest ] ||
  grep -vE '^(torch|torchvision|triton|nvidia-|cuda-|sympy)' constraints.txt >"$CONSTRAINTS"

install "torch-$version" "${PYTHON:-.venv/bin/python}" "$wanted"
echo "== $(".venvs/torch-$version/bin/python" -c \
  'import sys, torch; print("torch", torch.__version__, "Python", sys.version.split()[0])')"
run_tests "torch-$version"
