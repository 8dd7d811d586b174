#!/usr/bin/env bash
# Runs the tests without a browser with another release of torch: tests/other_torch.sh 2.14.1, or "newest".
# Each release has an environment of its own under .venvs, which is kept for the next time.
# TESTS names some of the tests, and PYTHON another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: tests/other_torch.sh VERSION}
environment=.venvs/torch-$version
[ "$version" = newest ] && wanted=torch || wanted="torch==$version"
python=$environment/bin/python

# What torch brings along comes in the releases that it asks for.
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
grep -vE '^(torch|torchvision|triton|nvidia-|cuda-)' constraints.txt >"$constraints"

if ! [ "$environment/.ready" -nt pyproject.toml ] || ! [ "$environment/.ready" -nt constraints.txt ]; then
  [ -d "$environment" ] || "${PYTHON:-.venv/bin/python}" -m venv "$environment"
  "$python" -m pip install --quiet --constraint "$constraints" --upgrade 'pip>=25.1' hatchling editables
  "$python" -m pip install --quiet --constraint "$constraints" "$wanted" --no-build-isolation \
    --editable . --group dev
  touch "$environment/.ready"
fi

echo "== $("$python" -c 'import sys, torch; print("torch", torch.__version__, "Python", sys.version.split()[0])')"
read -ra tests <<<"${TESTS:-tests src}"
OMP_NUM_THREADS=1 "$python" -m pytest -n "${JOBS:-3}" --dist loadfile --no-loadscope-reorder \
  --ignore tests/e2e "${tests[@]}"
