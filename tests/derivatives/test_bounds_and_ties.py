"""Derivatives at bounds, ties, kinks and poles are those of the installed torch.

One table (`kinks`), and one test function for each law that holds for all of it.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
from engine import operations_behind
from evaluate import evaluate, with_numbers
from kinks import BY_NAME
from test_formulas_of_operators import torchs

from gradwalk import GraphWidget
from gradwalk.derivatives.chain import Along, chain_model
from gradwalk.derivatives.formulas import formulas
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.torch_api.nodes import leaf_tensor, op_name

pytestmark = [pytest.mark.one_python, pytest.mark.filterwarnings("ignore")]

EVERY_ROW = pytest.mark.parametrize("name", list(BY_NAME))
SHARE = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] if i % 5 else []) for i, n in enumerate(BY_NAME)],
)

# The C++ behind these has no Python equal: torch's text is shown.
ONLY_TEXT = {"SpecialI1Backward0", "RenormBackward0"}
# torch itself has no derivative, or raises.
WITHOUT = {"NotImplemented", "DistBackward0"}
WITHOUT_CODE = {"i1", "renorm", "dist 0.0"}


def close(given, true, words):
    """Compare bit for bit where torch computes the same, else up to rounding."""
    if not torch.equal(given, true):
        torch.testing.assert_close(given, true, equal_nan=True, msg=lambda m: f"{words}\n{m}")


def incoming(node):
    """Gradients of ones, and random ones."""
    like = node._input_metadata
    yield [torch.ones(tuple(each.shape), dtype=each.dtype) for each in like]
    yield [torch.randn(tuple(each.shape), dtype=each.dtype) for each in like]


def nodes_at(row, point, dtype=torch.float64):
    leaves = row.leaves(point, dtype)
    return operations_behind(*row.outputs(leaves))


def compare(node, point):
    """Compare every formula of a node with the node itself; return how many were compared."""
    compared = 0
    for grads in incoming(node):
        try:
            true = list(torchs(node, grads))
        except RuntimeError:
            assert op_name(node) in WITHOUT
            continue
        for formula in formulas(node):
            if op_name(node) in ONLY_TEXT:
                assert formula["source"] == "torch"
                continue
            assert formula["source"] == "gradwalk", formula
            value = evaluate(formula, node, grads)
            assert value is not None, (formula, point)
            close(value, true[formula["arg_nr"]], (formula["code"], point))
            compared += 1
    return compared


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, pytest.param(torch.float32, marks=pytest.mark.full)],
    ids=str,
)
@EVERY_ROW
def test_every_formula_gives_torchs_gradient(name, dtype):
    row = BY_NAME[name]
    compared = [
        compare(node, point) for point in row.points for node in nodes_at(row, point, dtype)
    ]
    assert sum(compared) or name in WITHOUT_CODE


@EVERY_ROW
def test_every_formula_of_the_double_backward_gives_torchs_gradient(name):
    row = BY_NAME[name]
    for point in row.points[:2]:
        leaves = row.leaves(point)
        outputs = row.outputs(leaves)
        once = set(operations_behind(*outputs))
        try:
            found = torch.autograd.grad(
                outputs,
                leaves,
                [torch.ones_like(each).requires_grad_() for each in outputs],
                create_graph=True,
                allow_unused=True,
            )
        except RuntimeError:  # torch differentiates it only once
            continue
        twice = operations_behind(*(each for each in found if each is not None and each.grad_fn))
        for node in twice:
            if node in once:
                continue
            for grads in incoming(node):
                try:
                    true = list(torchs(node, grads))
                except (RuntimeError, NotImplementedError):
                    continue
                for formula in formulas(node):
                    if formula["source"] == "torch" or not formula["code"]:
                        continue
                    value = evaluate(formula, node, grads)
                    assert value is not None, (formula, point)
                    close(value, true[formula["arg_nr"]], (op_name(node), formula["code"], point))


@EVERY_ROW
def test_every_number_of_a_formula_is_torchs(name):
    row = BY_NAME[name]
    for point in row.points:
        if any(isinstance(each, list) for each in point):
            continue
        for node in nodes_at(row, point):
            grads = next(incoming(node))
            try:
                true = list(torchs(node, grads))
            except RuntimeError:
                continue
            for formula in formulas(node):
                numbers = with_numbers(formula, node, grads)
                if numbers is not None:
                    given = eval(numbers.rpartition("=")[2], {"nan": torch.nan, "inf": torch.inf})
                    given = torch.tensor(given, dtype=torch.float64).reshape(
                        true[formula["arg_nr"]].shape
                    )
                    torch.testing.assert_close(
                        given, true[formula["arg_nr"]], equal_nan=True, rtol=1e-5, atol=1e-300
                    )


@EVERY_ROW
def test_the_chain_rule_gives_the_gradient_of_a_leaf(name):
    row = BY_NAME[name]
    for point in row.points:
        if any(isinstance(each, list) for each in point):
            continue
        leaves = row.leaves(point)
        for output in row.outputs(leaves):
            try:
                true = torch.autograd.grad(output, leaves, retain_graph=True, allow_unused=True)
            except RuntimeError:
                continue
            captured = capture_nodes(read_outputs((output,), "capture"), Names())
            along = Along(captured, None)
            for nr, node in enumerate(captured.nodes):
                model = None if leaf_tensor(node) is None else chain_model(along, nr)
                if model is None or model["sum"] is None:
                    continue
                (grad,) = [g for x, g in zip(leaves, true, strict=True) if x is leaf_tensor(node)]
                total = torch.tensor(float(model["sum"]), dtype=torch.float64)
                torch.testing.assert_close(total, grad, equal_nan=True)


@SHARE
def test_the_panel_shows_only_code_that_gives_the_recorded_gradient(name):
    row = BY_NAME[name]
    for point in row.points[:3]:
        outputs = [each for each in row.outputs(row.leaves(point)) if each.numel()]
        with contextlib.closing(GraphWidget(outputs)) as widget:
            try:
                widget.backward(gradient=[torch.full_like(each, 0.75) for each in outputs])
            except RuntimeError:
                continue
            for node in widget.model["nodes"]:
                widget.selected = node["id"]
                assert widget.details["failed"] == []
                for formula in widget.details["formula"]:
                    if node["op"] in {*ONLY_TEXT, "NotImplemented"}:
                        assert not formula["checked"]
                    else:
                        assert formula["checked"], (formula, point)
