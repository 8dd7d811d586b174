"""What `what_if` cannot take or answer: each is a sentence, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fresh import fresh
from torch import Tensor

import gradwalk
from gradwalk import contributions, what_if


def test_freed_and_once():
    x = torch.ones(3, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"ExpBackward0 .* cannot run again: .* freed"):
        what_if(y, cut=x)
    with pytest.raises(RuntimeError, match="freed"):
        contributions(x, y)
    z = Once.apply(x).sum()
    z.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"OnceBackward .* autograd.Function Once .* only once"):
        what_if(z, cut=x)
    w = x * 1
    out = (w * w).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        what_if(out, cut=x)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.parts = [x]
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        ctx.parts.pop()
        return grad * 2


def test_compiled_parts_with_donated_buffers():
    assert "runs" in fresh(
        """
        from gradwalk import what_if
        f = torch.compile(lambda w: (w.sin().exp() * w.cos()).sum(), backend="aot_eager")
        w = torch.randn(8, requires_grad=True)
        f(w).backward()
        expected, w.grad = w.grad, None
        loss = f(w)
        try:
            what_if(loss, cut=w)
        except RuntimeError as error:
            assert "donated buffers" in str(error), error
        else:
            raise AssertionError
        loss.backward()  # it was left as it was
        assert torch.equal(w.grad, expected)
        other = torch.compile(lambda w: (w.cos() * w).exp(), backend="aot_eager")(w).sum()
        found = what_if(other, scale={"w": 2})
        expected, = torch.autograd.grad((w.cos() * w).exp().sum(), w)
        torch.testing.assert_close(found.before["w"], expected)
        assert torch.equal(found.after["w"], 2 * found.before["w"])
        print("runs")
        """
    )


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cut": "hiden"}, ValueError, "The nearest name is 'hidden'"),
    ({"cut": "zzz"}, ValueError, "The names are 'loss', 'hidden'"),
    ({"cut": [(99, 0)]}, ValueError, "has nodes 0 to 3 only"),
    ({"cut": [(0, 7)]}, ValueError, r"Its edges are \(0, 0\)"),
    ({"cut": [(3, 0)]}, ValueError, "none at all: it is a leaf"),
    ({"cut": [(1, 1)]}, ValueError, "needs no gradient"),
    ({"cut": [(1, "x")]}, TypeError, "two whole numbers"),
    ({"cut": 3}, TypeError, "Give a list of edges"),
    ({"cut": [None]}, TypeError, "a tensor, or a tensor's name"),
    ({"cut": torch.ones(2)}, ValueError, "does not require grad"),
    ({"cut": torch.ones(2, requires_grad=True)}, ValueError, "not in this graph"),
    ({"scale": ["hidden"]}, TypeError, "Give a dict from edges to factors"),
    ({"scale": {"hidden": "2"}}, TypeError, "Give a number"),
    ({"scale": {"hidden": torch.ones(2)}}, TypeError, "lambda grad: grad"),
    ({"replace": {"hidden": torch.ones(5)}}, ValueError, r"shape \(5,\) .* has shape \(2,\)"),
    ({"replace": {"hidden": 3}}, TypeError, "returns one"),
    ({"replace": {"hidden": lambda _: 3}}, TypeError, "returns one"),
    ({"replace": {"hidden": lambda g: g[0]}}, ValueError, "one number for each"),
    ({"replace": {"hidden": lambda g: g.double()}}, TypeError, r"\.to\(grad\)"),
    ({"inputs": ["w2"]}, ValueError, "nearest name is 'w'"),
    ({"gradient": torch.ones(3)}, ValueError, "gradient was given"),
]


@pytest.mark.parametrize(("asked", "kind", "said"), BAD)
def test_bad_input_is_a_sentence(asked: dict[str, Any], kind: type[Exception], said: str):
    w = torch.ones(2, requires_grad=True)
    hidden = w * w
    loss = (hidden * torch.ones(2)).sum()
    with pytest.raises(kind, match=said):
        what_if(loss, **asked)


@pytest.mark.parametrize("of", ["hidden", (0, 0)], ids=["a tensor", "an edge"])
def test_what_a_function_of_the_readers_raises_is_told_as_that(of: Any):
    w = torch.ones(2, requires_grad=True)
    hidden = w * 2
    loss = hidden.sum()

    def halve(grad: torch.Tensor) -> torch.Tensor:
        return grad / {}["half"]

    with pytest.raises(RuntimeError) as raised:
        what_if(loss, replace={of: halve})
    said = str(raised.value)
    assert said.startswith("replace was given halve for the gradient at ")
    assert "hidden, and it raised KeyError: 'half'. Nothing was changed." in said
    assert "of shape (2,) and torch.float32" in said
    assert type(raised.value.__cause__) is KeyError
    assert raised.traceback[-1].name == "_call"
    assert w.grad is None


def test_outputs_that_cannot_be():
    with pytest.raises(ValueError, match="requires_grad=False"):
        what_if(torch.ones(1))
    with pytest.raises(ValueError, match="gradient"):
        what_if(torch.ones(2, requires_grad=True) * 2)
    x = torch.ones(2, requires_grad=True)
    y = x.sum()
    seen: list[str] = []

    def hook(_: Any) -> None:
        try:
            what_if(y)
        except RuntimeError as error:
            seen.append(str(error))

    x.register_hook(hook)
    y.backward(retain_graph=True)
    assert "while a backward pass runs" in seen[0]


@pytest.mark.parametrize("of", ["w", "h"])
def test_a_real_gradient_is_not_made_complex(of: str):
    w = torch.tensor(2.0, requires_grad=True)
    h = w * 3
    with pytest.raises(TypeError, match="Give a real one"):
        what_if(h**2, scale={of: 2j})


def test_a_recording_without_names_says_where_they_come_from():
    w = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(ValueError, match=r"None of its tensors has a name.*names=\{'w': w\}"):
        what_if(gradwalk.record(w.exp(), names={}), scale={"w": 2})
    assert what_if(gradwalk.record(w.exp(), names={"w": w}), scale={"w": 2}).after["w"] is not None
    assert what_if(gradwalk.record(w.exp()), scale={"w": 2}).after["w"] is not None
