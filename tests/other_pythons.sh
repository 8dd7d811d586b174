#!/usr/bin/env bash
# Runs the tests with every other Python that is found, each in an environment of its own; the next one is
# installed while one is tested. Left out are those in a browser, and those marked `one_python`, which say
# the same on every Python; ALL=1 runs these, too.
# PYTHONS names others than these: PYTHONS="3.12 3.13".
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/environments.sh

marks="not full and not one_python"
[ -z "${ALL:-}" ] || marks="not full"

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
versions=() missing=() failed=()
for version in ${PYTHONS:-3.10 3.11 3.12 3.13 3.14}; do
  [ "$version" != "$own" ] || continue
  if [ -n "$(python_of "$version")" ]; then versions+=("$version"); else missing+=("$version"); fi
done

installing=
trap '[ -z "$installing" ] || kill "$installing" 2>/dev/null || true' EXIT
for ((at = 0; at < ${#versions[@]}; at++)); do
  version=${versions[at]} next=${versions[at + 1]:-} is_installed=yes
  [ "$at" -ne 0 ] || { install "$version" "$(python_of "$version")" & installing=$!; }
  wait "$installing" || is_installed=
  installing=
  [ -z "$next" ] || { install "$next" "$(python_of "$next")" & installing=$!; }
  if [ -z "$is_installed" ]; then
    failed+=("$version (not installed)")
    continue
  fi
  echo "== Python $version, tests that are $marks"
  run_tests "$version" -m "$marks" || failed+=("$version")
done
[ ${#missing[@]} -eq 0 ] || echo "Not found, so not tried: Python ${missing[*]}"
[ ${#failed[@]} -eq 0 ] || { echo "Failed with: Python ${failed[*]}"; exit 1; }
