"""The wheel carries the browser bundle and works where only the wheel is."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.one_python
def test_it_carries_the_bundle_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    for name in ("widget", "comparison"):
        script, style = (sizes[f"gradwalk/assets/{name}.{kind}"] for kind in ("js", "css"))
        assert script > 10_000
        assert style > 1_000
        assert script + style <= 256_000
    assert "gradwalk/py.typed" in sizes
    inside = {name.split("/")[0] for name in sizes if ".dist-info" not in name}
    assert inside == {"gradwalk"}
    assert not [name for name in sizes if name.endswith((".ts", ".map")) or "test_" in name]


def test_it_works_in_a_clean_environment(wheel, tmp_path):
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    # torch and the other dependencies are borrowed: installing them again would take minutes.
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", wheel],
        check=True,
        capture_output=True,
    )
    code = (
        "import gradwalk, torch; print(gradwalk.__file__); "
        "w = gradwalk.GraphWidget(torch.ones(1, requires_grad=True) * 2); "
        "print(repr(w), len(w._esm) > 10_000)"
    )
    borrowed = str(Path(torch.__file__).parents[1])
    run = f"import sys; sys.path.append({borrowed!r}); {code}"
    done = subprocess.run(
        [python, "-I", "-c", run], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    where, what = done.stdout.splitlines()
    assert str(tmp_path) in where
    assert what == "GraphWidget(2 nodes, 1 edge, 1 leaf) True"
