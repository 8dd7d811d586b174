"""What operations are called on a board."""

from __future__ import annotations

import pytest
import torch
from programs import PROGRAMS
from torch.nn import functional as F

from gradwalk import GraphWidget
from gradwalk.graph.signs import sign_of


def signs(*outputs: torch.Tensor) -> list[str | None]:
    widget = GraphWidget(*outputs)
    found = [node["sign"] for node in widget.graph["nodes"] if node["kind"] == "op"]
    widget.close()
    return found


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([0.5, 2.0], requires_grad=True)


@pytest.mark.parametrize(
    ("program", "sign"),
    [
        (lambda x: x + 1, "+"),
        (lambda x: x - 1, "−"),
        (lambda x: 1 - x, "( ) −"),
        (lambda x: x * 2, "×"),
        (lambda x: x / 2, "÷"),
        (lambda x: -x, "−( )"),
        (lambda x: x**2, "( )²"),
        (lambda x: x**10, "( )¹⁰"),
        (lambda x: x**-2, "( )⁻²"),
        (lambda x: x**-1, "1 / ( )"),
        (lambda x: x**0.5, "√( )"),
        (lambda x: x**1.5, "( )^1.5"),
        (lambda x: x**x, "( )ⁿ"),
        (lambda x: x.sqrt(), "√( )"),
        (lambda x: x.sum(), "Σ"),
        (lambda x: x.mean(), "mean"),
        (lambda x: x.tanh(), "tanh"),
        (lambda x: x @ torch.ones(2), "@"),
        (lambda x: x.log_softmax(0), "log softmax"),
    ],
)
def test_operations(program, sign, x):
    assert signs(program(x))[0] == sign


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_convolution_says_how_large_its_kernel_is(dims):
    weight = torch.ones(2, 1, *range(2, 2 + dims), requires_grad=True)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    sizes = "×".join(map(str, weight.shape[2:]))
    assert (
        signs(convolve(torch.ones(1, 1, 6, *[6] * (dims - 1)), weight))[0] == f"conv{dims}d {sizes}"
    )


@pytest.mark.parametrize("step", [1, 2, 3, (2, 1)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_window_says_its_step_where_that_is_not_1(size, step):
    image = torch.randn(1, 2, 9, 9, requires_grad=True)
    weight = torch.ones(2, 2, size, size, requires_grad=True)
    steps = step if isinstance(step, tuple) else (step,)
    told = "" if step == 1 else "×".join(map(str, steps))
    window = f"{size}×{size}"
    down, up = (told and f" {arrow}{told}" for arrow in "/↑")
    assert signs(F.conv2d(image, weight, stride=step))[0] == f"conv2d {window}{down}"
    assert signs(F.conv_transpose2d(image, weight, stride=step))[0] == f"conv2d {window}{up}"
    assert signs(F.max_pool2d(image, size, step))[0] == f"max pool {window}{down}"
    assert signs(F.avg_pool2d(image, size, step))[0] == f"avg pool {window}{down}"


def test_a_window_is_known_after_backward():
    image = torch.randn(1, 2, 9, 9, requires_grad=True)
    y = F.conv2d(image, torch.ones(2, 2, 3, 3, requires_grad=True), stride=2)
    y = F.max_pool2d(y, 2).sum()
    y.backward()
    assert signs(y) == ["Σ", "max pool 2×2 /2", "conv2d 3×3 /2"]


def test_the_exponent_is_known_after_backward(x):
    y = (x**3).sum()
    y.backward()
    assert signs(y) == ["Σ", "( )³"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_operation_of_every_program_has_one(name):
    found = signs(*_tensors(PROGRAMS[name]()))
    assert all(sign and "Backward" not in sign for sign in found)


def _tensors(outputs) -> list[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    values = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for value in values for tensor in _tensors(value)]


def test_names_without_words_stay():
    assert sign_of("Backward0") == "Backward0"
    assert sign_of("aten.add_.Tensor") == "+"
