"""Formulas over torch's own operators and modules: they run, and give what torch's nodes give."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress

import pytest
import torch
from engine import operations_behind
from evaluate import evaluate
from operator_corpus import everything

import gradwalk.derivatives.formulas as formulas_file
from gradwalk.derivatives.formulas import formulas
from gradwalk.torch_api.nodes import is_accumulate_grad, node_class, op_name

pytestmark = pytest.mark.one_python

EACH = 29  # of so many operators and modules the default run takes one; `-m full` takes all
# Of so many nodes of modules with the same formulas and shapes, as of the steps of a recurrence,
# numbers are compared.
ALIKE = 3
SHARE = 0.95  # of their nodes, at least, have a formula that runs
# The default run takes others with each release, as the list of operators grows.
SHARE_OF_A_FEW = 0.93


def real_grads(outputs, nodes):
    """What arrives at each node in a backward pass."""
    seen = {}
    handles = [
        node.register_prehook(lambda grads, node=node: seen.__setitem__(node, list(grads)))
        for node in nodes
    ]
    numbers = [each.abs() if each.is_complex() else each.sin() for each in outputs]
    leaves = [leaf for leaf in map(leaf_of, nodes) if leaf is not None]
    with suppress(RuntimeError, NotImplementedError):  # what torch's own backward refuses
        total = sum(each.sum() for each in numbers)
        torch.autograd.grad(total, leaves or outputs, retain_graph=True, allow_unused=True)
    for handle in handles:
        handle.remove()
    return seen


def torchs(node, grads):
    """The gradients of next functions, in their shapes and dtypes as the engine makes them.

    The engine itself would add what comes along other paths.
    """
    with torch.no_grad():
        passed = node(*grads)
    passed = passed if isinstance(passed, tuple) else (passed,)
    for (child, output_nr), grad in zip(node.next_functions, passed, strict=True):
        if child is None:
            yield None
            continue
        leaf = is_accumulate_grad(child)
        like = child.variable if leaf else child._input_metadata[output_nr]
        yield torch.zeros(like.shape, dtype=like.dtype) if grad is None else fitted(grad, like)


def fitted(grad, like):
    dense = grad.to_dense()
    if dense.shape != like.shape:
        dense = dense.sum_to_size(tuple(like.shape))
    if dense.is_complex() and not like.dtype.is_complex:
        dense = dense.real
    return dense.to(like.dtype)


class Tally:
    """The results for the nodes of one class."""

    def __init__(self):
        self.nodes = Counter()
        self.runs = Counter()
        self.filled = set()  # those with a gradient that has numbers
        self.wrong = defaultdict(list)
        self.alike = defaultdict(list)  # for some nodes of each kind in modules whether they run

    def look(self, unit, node, arrived):
        name = op_name(node)
        self.nodes[name] += 1
        found = formulas(node)
        ours = all(each["source"] == "gradwalk" and each["code"] for each in found)
        if node_class(type(node)).is_function:
            return
        known = []
        if unit.is_module:
            codes = [each["code"] for each in found]
            known = self.alike[(name, *codes, *map(str, given_and_passed(node)))]
        if len(known) < ALIKE:
            known.append(self.is_right(unit, node, arrived, found) and ours)
        self.runs[name] += known[-1]

    def is_right(self, unit, node, arrived, found):
        """Whether every formula of a node runs; those that give something else are noted."""
        name, like = op_name(node), node._input_metadata
        drawn = [torch.randn(tuple(each.shape), dtype=each.dtype) for each in like]
        ran = True
        for grads in (arrived, drawn):
            there = [grad for grad in grads if grad is not None]
            if not there or not all(grad.to_dense().isfinite().all() for grad in there):
                continue  # at NaN, kernels differ
            try:
                true = list(torchs(node, grads))
            except (RuntimeError, NotImplementedError, IndexError):
                continue  # a random gradient of complex eigenvectors, or of no bias, for example
            for formula in found:
                value = evaluate(formula, node, grads)
                if formula["source"] != "gradwalk" or not formula["code"]:
                    continue
                if value is None:
                    ran = False
                    self.wrong[name].append((unit.name, formula["code"], "does not run"))
                    continue
                if value.numel():
                    self.filled.add(name)
                unlike = difference(value.to_dense(), true[formula["arg_nr"]])
                if unlike:
                    ran = False
                    self.wrong[name].append((unit.name, formula["code"], unlike))
        return ran

    @property
    def share(self):
        return self.runs.total() / self.nodes.total()

    def without(self):
        """The classes that have none, by how many nodes there are."""
        return (self.nodes - self.runs).most_common()


def difference(given, expected):
    """How far two gradients are apart, in torch's words; "" where they are close."""
    if given.dtype == expected.dtype == torch.complex32:  # torch compares none
        given, expected = given.to(torch.complex64), expected.to(torch.complex64)
    if given.dtype == expected.dtype and torch.equal(given, expected):
        return ""  # as most are, and what allows for rounding takes long to say so
    try:
        torch.testing.assert_close(given, expected, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""


def given_and_passed(node):
    """Shapes and dtypes of what a node gets and of what it passes on."""
    for each in node._input_metadata:
        yield each.shape, each.dtype
    for child, output_nr in node.next_functions:
        leaf = is_accumulate_grad(child)
        like = child.variable if leaf else child and child._input_metadata[output_nr]
        yield like is not None and (like.shape, like.dtype)


def leaf_of(node):
    for child, _ in node.next_functions:
        if is_accumulate_grad(child):
            return child.variable
    return None


def gradients(outputs):
    """The gradients of leaves that have a graph themselves: the graph of the double backward."""
    leaves = [leaf for node in operations_behind(*outputs) if (leaf := leaf_of(node)) is not None]
    try:
        ones = [torch.ones_like(each).requires_grad_() for each in outputs]
        found = torch.autograd.grad(outputs, leaves, ones, create_graph=True, allow_unused=True)
    except (RuntimeError, NotImplementedError):  # torch differentiates it only once
        return []
    return [each for each in found if each is not None and each.requires_grad]


def tally(units, **sizes):
    found = Tally()
    for unit in units:
        for outputs in unit.graphs(**sizes):
            once = [each for each in outputs if each.layout is torch.strided]
            for tensors in (once, gradients(outputs)):
                dense = [each for each in tensors if each.layout is torch.strided]
                nodes = operations_behind(*dense)
                arrived = real_grads(dense, nodes) if dense else {}
                for node in nodes:
                    found.look(unit, node, arrived.get(node, []))
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_share_of_the_operators_and_modules():
    found = tally(everything()[::EACH], most=3)
    assert not found.wrong
    assert found.share >= SHARE_OF_A_FEW, found.without()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_every_operator_and_module():
    found = tally(everything(), most=8, numbers=1000)
    assert not found.wrong
    assert found.share >= SHARE, found.without()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_a_planted_fault_is_found(monkeypatch):
    """Whatever code is broken, the comparison sees it: it looks at every class that runs."""
    whole = formulas_file.derivative

    def broken(op, argument, case):
        code = whole(op, argument, case)
        lines = (code or "").split("\n")
        return code and "\n".join([*lines[:-1], f"({lines[-1]}) + 1"])

    units = everything()[::EACH]
    right = tally(units, most=3)
    monkeypatch.setattr(formulas_file, "derivative", broken)
    found = tally(units, most=3)
    assert set(found.wrong) == right.filled
