"""Whole programs at random settings, beside torch.

Each call gives what torch gives for the same inputs: each number within 4 units of its last place.
In sums, which torch adds in another order, it may be 16 units of the largest number. In a whole
program these differences grow on their way, and `close` holds the bound.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from live_engine import computed, is_right, tensor_of
from live_programs import PROGRAMS

from gradwalk import GraphWidget, watch
from gradwalk.features.live.program import program_model
from gradwalk.features.live.replay import watched_forward
from gradwalk.features.live.tape import Tape

pytestmark = pytest.mark.one_python

SETTINGS = 12
MANY = 200


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
def test_a_page_computes_what_torch_computes(name, dtype):
    check_program(name, dtype, SETTINGS)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page_computes_what_torch_computes_at_many_settings(name, dtype):
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        job, expected = many_settings(name)
        (found,) = computed([job])
        for given, tensors in zip(found, expected, strict=True):
            for numbers, tensor in zip(given["views"], tensors, strict=True):
                assert close(tensor_of(numbers, tensor), tensor)
    finally:
        torch.set_default_dtype(default)


def many_settings(name: str, count: int = MANY) -> tuple[dict[str, Any], list[list[torch.Tensor]]]:
    """Return a job for the page, and what torch gives: the loss and the gradients of leaves."""
    torch.manual_seed(4)
    leaves = [each.requires_grad_() for each in PROGRAMS[name][1]()]
    _, source = shown(name, leaves)
    model = program_model(source, watched_forward(source.autograd))
    by_node = dict(source.autograd.leaves())
    inputs = [one for one in model["inputs"] if one["grad"] is not None]
    order = [next(i for i, it in enumerate(leaves) if it is by_node[one["node"]]) for one in inputs]
    (root,) = (one["view"] for one in model["values"] if one["node"] == 0)
    settings, expected = [], []
    for _ in range(count):
        new = [each.requires_grad_() for each in PROGRAMS[name][1]()]
        loss = PROGRAMS[name][0](*new)
        chosen = [new[i] for i in order]
        expected.append([loss.detach(), *torch.autograd.grad(loss, chosen)])
        pairs = zip(inputs, chosen, strict=True)
        settings.append([[one["view"], it.detach().flatten().tolist()] for one, it in pairs])
    views = [root, *(one["grad"] for one in inputs)]
    return {"model": model, "settings": settings, "views": views}, expected


def check_program(name: str, dtype: torch.dtype, count: int) -> None:
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
        for _ in range(count):
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_gives_what_torch_gives(name, dtype, monkeypatch):
    check_calls(name, dtype, 4, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_gives_what_torch_gives_at_many_settings(name, dtype, monkeypatch):
    check_calls(name, dtype, MANY, monkeypatch)


def check_calls(name: str, dtype: torch.dtype, count: int, monkeypatch: Any) -> None:
    """Run each call of the page again in torch, with what it was given in the page."""
    operations: list[Any] = []
    record, write = Tape._record, Tape._add

    def recorded(tape: Tape, operation: Any, *args: Any, **kwargs: Any) -> Any:
        operations.append(operation)
        return record(tape, operation, *args, **kwargs)

    def added(tape: Tape, *args: Any) -> None:
        write(tape, *args)
        if len(operations) < len(tape.calls):  # a constant is written
            operations.append(torch.ops.aten.copy_.default)

    monkeypatch.setattr(Tape, "_record", recorded)
    monkeypatch.setattr(Tape, "_add", added)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(3)
        leaves = [each.requires_grad_() for each in PROGRAMS[name][1]()]
        _, source = shown(name, leaves)
        model = program_model(source, watched_forward(source.autograd))
        assert len(operations) == len(model["calls"])
        settings = []
        for _ in range(count):
            new = PROGRAMS[name][1]()
            by_node = {id(leaf): node for node, leaf in source.autograd.leaves()}
            views = {one["node"]: one["view"] for one in model["inputs"]}
            pairs = zip(leaves, new, strict=True)
            settings.append(
                [[views[by_node[id(leaf)]], it.flatten().tolist()] for leaf, it in pairs]
            )
        (found,) = computed([{"model": model, "settings": settings, "views": None}])
        for calls in found:
            for call, seen, operation in zip(model["calls"], calls, operations, strict=True):
                check_call(model, call, seen, operation)
    finally:
        torch.set_default_dtype(default)


def check_call(model: Any, call: Any, seen: Any, operation: Any) -> None:
    """Compare a call of the page with the operation of torch that it stands for."""

    def empty(view: int) -> torch.Tensor:
        storage, shape, strides, _ = model["views"][view]
        dtype = getattr(torch, model["storages"][storage]["dtype"])
        size = 1 + sum((n - 1) * by for n, by in zip(shape, strides, strict=True))
        return torch.zeros(max(size, 1), dtype=dtype).as_strided(shape, strides)

    def given(value: Any) -> Any:
        if isinstance(value, list):
            return [given(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "n" in value:
            return float(value["n"])
        tensor = empty(value["t"])
        numbers = tensor_of(seen["inputs"][str(value["t"])], tensor)
        return numbers if 0 in tensor.stride() else tensor.copy_(numbers)

    arguments = {name: given(each) for name, each in call["args"].items()}
    result = operation(**arguments)
    several = result if isinstance(result, (tuple, list)) else [result]
    for numbers, expected in zip(seen["outputs"], several, strict=True):
        if numbers is not None and math.prod(expected.shape):
            assert is_right(tensor_of(numbers, expected), expected, {call["name"]}), call
