"""What a node keeps for backward is what torch says it keeps, and freed when torch says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from programs import PROGRAMS, MultiplyAdd, backward, outputs_of
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import checkpoint

from gradwalk.torch_api import checkpoints
from gradwalk.torch_api.saved_tensors import is_freed, read_saved, saved_models
from gradwalk.torch_api.summary import summarise


def nodes_of(outputs):
    order = list(dict.fromkeys(output.grad_fn for output in outputs if output.grad_fn))
    for node in order:
        order += [c for c, _ in node.next_functions if c is not None and c not in order]
    return order


def by_name(node):
    return {saved["name"]: saved for saved in saved_models(node, 100)[0]}


def torchs_own(node):
    """Name -> value, by torch's documented attributes; nothing for what is absent."""
    if hasattr(node, "saved_tensors"):
        return {f"saved_tensors[{i}]": t for i, t in enumerate(node.saved_tensors) if t is not None}
    own = {}
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            name, value = attribute.removeprefix("_saved_"), getattr(node, attribute)
            if isinstance(getattr(node, f"_raw_saved_{name}", None), tuple):
                own |= {f"{name}[{i}]": item for i, item in enumerate(value)}
            else:
                own[name] = value
    return {name: value for name, value in own.items() if value is not None}


UNPACKABLE = [name for name in PROGRAMS if not name.startswith("recomputed")]


@pytest.mark.parametrize("name", UNPACKABLE)
def test_every_saved_value_of_every_program_is_torchs(name):
    for node in nodes_of(outputs_of(name)):
        wanted, found = torchs_own(node), by_name(node)
        assert found.keys() == wanted.keys(), type(node).__name__
        for key, value in wanted.items():
            assert not found[key]["freed"]
            if isinstance(value, torch.Tensor):
                assert found[key]["summary"] == summarise(value)
                assert found[key]["scalar"] is None
            else:
                assert found[key]["summary"] is None


def test_inputs_of_a_checkpointed_part_that_a_function_keeps_may_be_unknown(monkeypatch):
    def unread(_):
        raise LookupError("unknown")

    output = MultiplyAdd.apply(*(torch.ones(2, requires_grad=True) for _ in range(3)))
    part = SimpleNamespace(input_saver=output)  # as torch up to 2.11 has it
    assert checkpoints.inputs_of(part)
    monkeypatch.setattr(checkpoints, "packed_by_function", unread)
    assert checkpoints.inputs_of(part) == []


def refuses(node):
    """Whether torch refuses to run backward through this one node because its buffers are gone."""
    into = [GradientEdge(*edge) for edge in node.next_functions if edge[0] is not None]
    like = [torch.ones(tuple(m.shape), dtype=m.dtype) for m in node._input_metadata]
    try:
        torch.autograd.grad(
            [GradientEdge(node, i) for i in range(len(like))],
            into,
            like,
            retain_graph=True,
            allow_unused=True,
        )
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        return True
    return False


@pytest.mark.parametrize(
    "name",
    [
        *("linear", "same_tensor_twice", "lenet", "lstm_and_norm", "two_outputs", "recurrent"),
        *("several_outputs_of_one_node", "double_backward", "joined_and_indexed"),
    ],
)
def test_what_is_freed_is_what_torch_refuses_to_run_again(name):
    outputs = outputs_of(name)
    nodes = [node for node in nodes_of(outputs) if not hasattr(node, "variable")]
    assert not any(map(is_freed, nodes))
    backward(outputs)
    assert [is_freed(node) for node in nodes] == [refuses(node) for node in nodes]


def test_scalars_lists_flags_and_absent_values():
    #   sum over dim 0, keepdim: a list, a flag, and a shape
    x = torch.ones(2, 3, requires_grad=True)
    found = by_name(x.sum(0, keepdim=True).grad_fn)
    assert found["dim"]["scalar"] == [0]
    assert found["keepdim"]["scalar"] is True
    assert found["self_sym_sizes"]["scalar"] == [2, 3]
    assert by_name((x**2.5).grad_fn)["exponent"]["scalar"] == 2.5
    assert by_name((x * float("nan")).grad_fn).keys() == {"other"}
    assert by_name((x ** float("inf")).grad_fn)["exponent"]["scalar"] == "inf"
    assert by_name(x.sum(-1).grad_fn)["dim"]["scalar"] == [-1]
    assert by_name(x.transpose(-1, 0).grad_fn)["dim0"]["scalar"] == -1


def test_what_is_not_needed_is_not_kept():
    #   x * c with a constant c: c is kept for x's gradient, x for nobody's
    x, c = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
    found = by_name((x * c).grad_fn)
    assert found.keys() == {"other"}
    assert found["other"]["summary"]["values"] == [3.0, 3.0]


def test_a_list_of_tensors_is_numbered():
    x = torch.randn(4, 2, requires_grad=True)
    index = torch.tensor([1, 3])
    found = by_name(x[index].grad_fn)
    assert found["indices[0]"]["summary"]["values"] == [1, 3]
    assert found["indices[0]"]["summary"]["dtype"] == "torch.int64"


def test_a_custom_functions_tensors_before_and_after():
    x, b = torch.ones(2, requires_grad=True), torch.full((2,), 4.0, requires_grad=True)
    y = MultiplyAdd.apply(2.0, x, b)
    values = [s["summary"]["values"] for s in saved_models(y.grad_fn, 100)[0]]
    assert values == [[1.0, 1.0], [4.0, 4.0]]
    y.sum().backward()
    (gone,) = saved_models(y.grad_fn, 100)[0]
    assert gone["freed"]
    assert gone["summary"] is None
    assert gone["note"].startswith("Freed by the last backward")


class KeepsNothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class KeepsNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(None, x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_custom_function_that_saves_nothing_or_none():
    x = torch.ones(2, requires_grad=True)
    nothing, none = KeepsNothing.apply(x), KeepsNone.apply(x)
    assert saved_models(nothing.grad_fn, 100)[0] == []
    assert [s["name"] for s in saved_models(none.grad_fn, 100)[0]] == ["saved_tensors[1]"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_looking_never_recomputes_a_checkpoint(reentrant):
    calls = []

    def part(t):
        calls.append(1)
        return t.exp() * t

    x = torch.ones(2, requires_grad=True)
    y = checkpoint(part, x, use_reentrant=reentrant).sum()
    before = len(calls)
    for node in nodes_of([y]):
        list(read_saved(node))
        saved_models(node, 100)[0]
    assert len(calls) == before
    before = len(calls)
    y.backward()
    for node in nodes_of([y]):
        saved_models(node, 100)[0]
    assert len(calls) == before + 1


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.int64, torch.uint8, torch.complex64, torch.bfloat16, torch.float8_e4m3fn],
    ids=str,
)
def test_saved_tensors_of_every_kind(dtype):
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, kept):
            ctx.save_for_backward(kept)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    kept = torch.ones(3).to(dtype)
    y = Keeps.apply(torch.ones(3, requires_grad=True), kept)
    (saved,) = saved_models(y.grad_fn, 100)[0]
    assert saved["summary"]["dtype"] == str(dtype)
    assert len(saved["summary"]["values"]) == 3


def test_reading_what_is_saved_changes_nothing():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    version = y._version
    saved_models(y.grad_fn, 100)[0]
    assert y._version == version
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
