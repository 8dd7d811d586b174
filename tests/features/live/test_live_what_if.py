"""Edits of gradients on live pages, beside `what_if`."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from live_engine import computed
from live_programs import PROGRAMS

from gradwalk import GraphWidget, watch, what_if
from gradwalk.features.live.program import program_model
from gradwalk.features.live.replay import watched_forward

pytestmark = pytest.mark.one_python

EDITS = 6


@pytest.mark.parametrize("name", PROGRAMS)
def test_edits_do_what_torch_says(name):
    torch.manual_seed(2)
    leaves = [each.requires_grad_() for each in PROGRAMS[name][1]()]
    with watch():
        loss = PROGRAMS[name][0](*leaves)
    widget = GraphWidget(loss, names={f"leaf{i}": leaf for i, leaf in enumerate(leaves)})
    widget.backward()
    source = widget._open()
    graph, run = source.model, source.run
    flows = [graph["edges"][place] for place in run["edges"]]
    chosen = random.Random(name).choices(flows, k=EDITS)
    edits, expected = [], []
    for i, edge in enumerate(chosen):
        key = edge["source"], edge["arg_nr"]
        kind, value = [("cut", None), ("scale", -0.5), ("replace", 0.25)][i % 3]
        edit = {"kind": kind, "edge": list(key), "value": value, "name": None, "off": False}
        edits.append([edit])
        expected.append(after(widget, kind, key, value))
    for one, other in ((0, 1), (2, 4)):
        edits.append([*edits[one], *edits[other]])
        expected.append(None)
    model = program_model(source, watched_forward(source.autograd))
    (found,) = computed([{"model": model, "graph": graph, "run": run, "edits": edits}])
    names = {node["id"]: node["name"] for node in graph["nodes"]}
    for effect, grads in zip(found, expected, strict=True):
        assert effect["failed"] is None
        if grads is None:
            continue
        assert effect["leaves"]
        for leaf in effect["leaves"]:
            grad = grads[names[leaf["node"]]]
            assert (leaf["after"] is None) == (grad is None)
            if grad is not None:
                norm = float(grad.double().norm())
                assert leaf["after"]["norm"] == pytest.approx(norm, rel=1e-4, abs=1e-6)


def after(widget: Any, kind: str, edge: tuple[int, int], value: float | None) -> dict[Any, Any]:
    """Return the gradients after an edit, as torch computes them."""
    if kind == "cut":
        return what_if(widget, cut=[edge]).after
    if kind == "scale":
        return what_if(widget, scale={edge: value}).after
    return what_if(widget, replace={edge: lambda grad: torch.full_like(grad, value)}).after
