"""Whole programs at random settings, beside torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from live_engine import computed, tensor_of
from live_programs import PROGRAMS

from gradwalk import GraphWidget, watch
from gradwalk.features.live.program import program_model
from gradwalk.features.live.replay import watched_forward

pytestmark = pytest.mark.one_python

SETTINGS = 12


def shown(name: str, leaves: list[torch.Tensor]) -> Any:
    """Run a program under watch and its backward; return the widget and the source."""
    with watch():
        loss = PROGRAMS[name][0](*leaves)
    widget = GraphWidget(loss)
    widget.backward()
    return widget, widget._open()


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether numbers are the same up to the rounding of sums in torch's own order."""
    size = float(expected.abs().max().clamp(min=1)) if expected.numel() else 1.0
    most = 1e-12 if expected.dtype == torch.float64 else 2e-5
    return bool(((found - expected).abs() <= most * size).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page_computes_what_torch_computes(name, dtype, monkeypatch):
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(1)
        leaves = [each.requires_grad_() for each in PROGRAMS[name][1]()]
        _, source = shown(name, leaves)
        model = program_model(source, watched_forward(source.autograd))
        by_node = {id(leaf): node for node, leaf in source.autograd.leaves()}
        views = {one["node"]: one["view"] for one in model["inputs"]}
        settings, expected = [], []
        for _ in range(SETTINGS):
            new = [each.requires_grad_() for each in PROGRAMS[name][1]()]
            other = shown(name, new)
            expected.append((new, other))
            settings.append(
                [
                    [views[by_node[id(leaf)]], number.detach().flatten().tolist()]
                    for leaf, number in zip(leaves, new, strict=True)
                ]
            )
        edges = [one["view"] for one in model["edges"]]
        grads = {one["node"]: one["grad"] for one in model["inputs"] if one["grad"] is not None}
        wanted = [*edges, *grads.values()]
        (found,) = computed([{"model": model, "settings": settings, "views": wanted}])
        for given, (new, (widget, theirs)) in zip(found, expected, strict=True):
            assert given["broken"] is None
            at = dict(zip(grads, given["views"][len(edges) :], strict=True))
            for leaf, number in zip(leaves, new, strict=True):
                if number.grad is not None:
                    assert close(tensor_of(at[by_node[id(leaf)]], number), number.grad)
            compare(model, given, widget, theirs)
    finally:
        torch.set_default_dtype(default)


def compare(model, given, widget, theirs):
    dtype = getattr(torch, model["storages"][0]["dtype"])
    for numbers, one in zip(given["values"], model["values"], strict=True):
        value = widget.model["nodes"][one["node"]]["value"]
        if value is not None:
            expected = torch.tensor(value, dtype=dtype)
            assert close(tensor_of(numbers, expected), expected), one
    for numbers, one in zip(given["views"], model["edges"], strict=False):
        value = theirs.run["values"][one["at"]]
        if value is not None:
            expected = torch.tensor(value, dtype=dtype)
            assert close(tensor_of(numbers, expected), expected), one
