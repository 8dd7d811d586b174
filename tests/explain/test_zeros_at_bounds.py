"""A gradient of zeros at a bound, a tie or a kink is explained by the operation that made it."""

from __future__ import annotations

import contextlib

import pytest
import torch
from kinks import BY_NAME

from gradwalk import GraphWidget, explain_grad
from gradwalk.explain.zero_derivatives import Blocking
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.torch_api.nodes import leaf_tensor

pytestmark = [pytest.mark.one_python, pytest.mark.filterwarnings("ignore")]

EVERY_ROW = pytest.mark.parametrize("name", list(BY_NAME))
SHARE = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] if i % 5 else []) for i, n in enumerate(BY_NAME)],
)
GUESSES = ("cancel", "too small", "hook", "unknown")

# Parts of these gradients add up to zero: no operation blocks them.
SUMS = {"tanhshrink", "l1_loss mean", "l1_loss sum", "triplet_margin_loss", "dist 1.0"}


def incoming(output):
    """A gradient whose sums over any part are not zero."""
    return (torch.arange(output.numel(), dtype=output.dtype).sin() + 1.5).reshape(output.shape)


@EVERY_ROW
def test_zeros_are_explained_and_nothing_else_is_blamed(name):
    row = BY_NAME[name]
    for point in row.points:
        leaves = row.leaves(point)
        outputs = [each for each in row.outputs(leaves) if each.numel()]
        try:
            torch.autograd.backward(outputs, list(map(incoming, outputs)), retain_graph=True)
        except RuntimeError:  # torch has no derivative
            continue
        captured = capture_nodes(read_outputs(tuple(outputs), "capture"), Names())
        for nr, node in enumerate(captured.nodes):
            leaf = leaf_tensor(node)
            if leaf is None or not leaf.numel() or leaf.grad is None:
                continue
            found = Blocking(captured).before(nr).found
            if leaf.grad.any():
                assert not found or leaf.grad.isnan().any(), (found, point)
                continue
            if name in SUMS and not found:
                continue
            said = explain_grad(leaf, outputs)
            assert said.kind == "zero"
            assert " blocks it (" in said, (said, point)
            assert not any(word in said for word in GUESSES), (said, point)


@SHARE
def test_zeros_of_a_recorded_pass_are_explained(name):
    row = BY_NAME[name]
    for point in row.points[-2:]:
        leaves = row.leaves(point)
        outputs = [each for each in row.outputs(leaves) if each.numel()]
        with contextlib.closing(GraphWidget(outputs)) as widget:
            try:
                widget.backward(gradient=list(map(incoming, outputs)))
            except RuntimeError:
                continue
            for leaf in leaves:
                if leaf.grad is None or leaf.grad.any() or not leaf.numel():
                    continue
                said = explain_grad(leaf, widget)
                assert " blocks it (" in said or "became zero at " in said or name in SUMS
                assert not any(word in said for word in GUESSES), (said, point)
