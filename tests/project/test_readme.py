"""The README's programs run as they stand, one after the other."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
import torch
from programs import LeNet

import gradwalk
from gradwalk import GraphWidget

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_programs_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # What a reader has: a model, what goes into it, and how it is trained.
    model = LeNet()
    variables: dict[str, Any] = {
        "model": model,
        "images": torch.randn(2, 1, 28, 28),
        "labels": torch.tensor([3, 7]),
        "loss_fn": torch.nn.functional.cross_entropy,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(programs) > 5
    for nr, program in enumerate(programs):
        # Lines of a program that is watched are read from its source.
        file = f"README-{nr}.py"
        linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
        exec(compile(program, file, "exec"), variables)
        if "graph.step()" in program:
            assert variables["x"].grad == 4  # as it says there
        if "explain_grad(x, cut)" in program:
            said = eval("explain_grad(x, cut)", variables)
            assert said.startswith("No gradient reaches x from cut: detach() at README-")
            assert ":7 (`cut = w * x.detach() + b`) took" in said
        if 'contributions("h"' in program:
            assert "out = h.detach() + torch.tanh(h)" in variables["found"].code
            parts = eval('contributions("h", out, by="edge")', variables)
            assert [round(part.share, 3) for part in parts] == [0.704, 0.296]
    assert variables["pred"].item() == -5
    written = {each.name for each in tmp_path.iterdir()}
    assert written == {"graph.html", "graph.svg", "run.gw"}


def test_the_reference_has_every_public_name() -> None:
    reference = README.split("\n## Reference\n")[1].split("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", reference))
    of_widget = {
        name
        for each in GraphWidget.__mro__
        if each.__module__.startswith("gradwalk.")
        for name in vars(each)
        if not name.startswith("_")
    }
    not_ours = set(dir(ipywidgets.DOMWidget)) - {"close"}  # some of it is overridden
    public = {*gradwalk.__all__, *(of_widget - not_ours)}
    assert public - listed == set()
    assert listed - public <= {"gradwalk", "Node", "assert_gradients"}  # ours, and autograd's
