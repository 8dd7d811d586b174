#!/usr/bin/env bash
# Runs the tests of the widgets with the releases that Google Colab ships (its list of August 2026), in an
# environment under .venvs that borrows everything else, torch above all, from .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

colab=(ipywidgets==7.7.1 traitlets==5.7.1 ipython==7.34.0 anywidget==0.9.21)
environment=.venvs/colab
packages='import sysconfig; print(sysconfig.get_path("purelib"))'

[ -d "$environment" ] || .venv/bin/python -m venv "$environment"
# Comes after the environment's own packages, which win.
echo "import site; site.addsitedir('$(.venv/bin/python -c "$packages")')" \
  >"$("$environment/bin/python" -c "$packages")/borrowed.pth"
"$environment/bin/python" -m pip install --quiet --no-warn-conflicts "${colab[@]}"

echo "== ${colab[*]}"
tests=(tests/test_{bad_input,compare,interact,interrupted,notebook,own_backward,saved,saved_notebook,stepping,stepping_panel,whose_pass,widget,wire}.py)
# ipywidgets 7 does what traitlets deprecates.
JUPYTER_PATH=$PWD/.venv/share/jupyter OMP_NUM_THREADS=1 "$environment/bin/python" -m pytest \
  -n "${JOBS:-2}" --dist loadfile -W ignore::DeprecationWarning "${tests[@]}"
