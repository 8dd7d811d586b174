# What the scripts that run the tests in other environments share. Each environment is under .venvs, and is
# kept for the next time. CONSTRAINTS names another file than constraints.txt.

# install NAME PYTHON [REQUIREMENT ...]: make an environment, unless it is younger than what it is made from.
install() {
  local environment=.venvs/$1 python=$2
  local pip=("$environment/bin/python" -m pip install --quiet --constraint "${CONSTRAINTS:-constraints.txt}")
  [ "$environment/.ready" -nt pyproject.toml ] && [ "$environment/.ready" -nt constraints.txt ] && return
  { [ -d "$environment" ] || "$python" -m venv "$environment"; } &&
    "${pip[@]}" --upgrade 'pip>=25.1' hatchling editables &&
    "${pip[@]}" --no-build-isolation --editable . "${@:3}" --group dev &&
    touch "$environment/.ready"
}

# run_tests NAME [ARGUMENT ...]: run those without a browser, or those that TESTS names.
run_tests() {
  local tests
  read -ra tests <<<"${TESTS:-tests src}"
  OMP_NUM_THREADS=1 ".venvs/$1/bin/python" -m pytest -n "${JOBS:-2}" --dist loadfile \
    --no-loadscope-reorder --ignore tests/e2e "${@:2}" "${tests[@]}"
}
