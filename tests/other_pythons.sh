#!/usr/bin/env bash
# Runs the tests, but for those in a browser, with every other Python that is found, each in an
# environment of its own under .venvs. PYTHONS names others than these: PYTHONS="3.12 3.14".
set -euo pipefail
cd "$(dirname "$0")/.."

# The interpreter of a version: on the PATH, or among pyenv's.
python_of() {
  for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$found"
      return
    fi
  done
}

own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
missing=() failed=()
for version in ${PYTHONS:-3.10 3.11 3.12 3.13}; do
  [ "$version" = "$own" ] && continue
  python=$(python_of "$version")
  if [ -z "$python" ]; then
    missing+=("$version")
    continue
  fi
  environment=.venvs/$version
  echo "== Python $version"
  [ -d "$environment" ] || "$python" -m venv "$environment"
  install=("$environment/bin/python" -m pip install --quiet --constraint constraints.txt)
  "${install[@]}" --upgrade 'pip>=25.1' hatchling editables
  "${install[@]}" --no-build-isolation --editable . --group dev
  OMP_NUM_THREADS=1 "$environment/bin/python" -m pytest -n "${JOBS:-2}" --dist loadfile \
    --ignore tests/e2e tests src || failed+=("$version")
done
[ ${#missing[@]} -eq 0 ] || echo "Not found, so not tried: Python ${missing[*]}"
[ ${#failed[@]} -eq 0 ] || { echo "Failed with: Python ${failed[*]}"; exit 1; }
