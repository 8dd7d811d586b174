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
tests=(
  tests/widget/test_bad_input.py
  tests/comparison/test_compare.py
  tests/features/cells/test_cells.py
  tests/features/interact/test_interact.py
  tests/backward/test_interrupted.py
  tests/widget/test_notebook.py
  tests/backward/test_own_backward.py
  tests/torch_api/test_saved.py
  tests/export/test_saved_notebook.py
  tests/widget/test_stepping.py
  tests/panel/test_stepping_panel.py
  tests/backward/test_whose_pass.py
  tests/widget/test_widget.py
  tests/schema/test_wire.py
)
# ipywidgets 7 does what traitlets deprecates.
JUPYTER_PATH=$PWD/.venv/share/jupyter OMP_NUM_THREADS=1 "$environment/bin/python" -m pytest \
  -n "${JOBS:-2}" --dist loadfile -W ignore::DeprecationWarning "${tests[@]}"
