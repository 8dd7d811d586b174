"""The README's programs run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
import torch
from programs import LeNet

import gradwalk
from gradwalk import GraphWidget

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


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
    for program in programs:
        exec(compile(program, "README.md", "exec"), variables)
        if "graph.step()" in program:
            assert variables["x"].grad == 4  # as it says there
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
    assert listed - public <= {"gradwalk", "Node"}  # ours, and autograd's
