"""What operations are called on a board."""

from __future__ import annotations

import math
import random
import re
from contextlib import closing

import pytest
import torch
from programs import PROGRAMS
from torch import nn
from torch.nn import functional as F

from gradwalk import GraphWidget, watch
from gradwalk.graph.symbols import symbol_of


def signs(*outputs: torch.Tensor) -> list[str | None]:
    widget = GraphWidget(*outputs)
    found = [node["sign"] for node in widget.model["nodes"] if node["kind"] == "op"]
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
        (lambda x: x * 2, "× 2"),
        (lambda x: x / 2, "÷ 2"),
        (lambda x: 10.0 / x, "× 10"),  # of the inverse
        (lambda x: x * torch.tensor(0.1), "× 0.1"),
        (lambda x: x * torch.tensor([2.0, 3.0]), "×"),
        (lambda x: 2**x, "2^( )"),
        (lambda x: x ** torch.tensor(3.0), "( )³"),
        (lambda x: torch.div(x, 2, rounding_mode="floor"), "÷ floor"),
        (lambda x: torch.div(x, x, rounding_mode="trunc"), "÷ trunc"),
        (lambda x: torch.add(x, x, alpha=-3), "+ −3 ×"),
        (lambda x: torch.sub(x, x, alpha=0.5), "− 0.5 ×"),
        (lambda x: torch.rsub(x, 2.0, alpha=3), "( ) − 3 ×"),
        (lambda x: torch.addcmul(x, x, x), "+ ×"),
        (lambda x: torch.addcmul(x, x, x, value=5), "+ 5 × ×"),
        (lambda x: torch.addcdiv(x, x, x, value=5), "+ 5 × ÷"),
        (lambda x: torch.addmm(x, x[:, None], x[None], beta=2), "@ + 2 ×"),
        (lambda x: torch.addmm(x, x[:, None], x[None], alpha=3), "3 × @ +"),
        (lambda x: x[None].T, "( )ᵀ"),
        (lambda x: x[None].transpose(0, -1), "( )ᵀ"),
        (lambda x: x[None, None].transpose(-3, -1), "transpose 0, 2"),
        (lambda x: torch.transpose_copy(x[None, None], 0, 1), "transpose 0, 1"),
        (lambda x: torch.select_copy(x, 0, 1), "[1]"),
        (lambda x: torch.unsqueeze_copy(x, 0), "unsqueeze"),
        (lambda x: x.new_zeros(2).copy_(x), "copy"),
        (lambda x: x[None, None].permute(0, -1, -2), "( )ᵀ"),
        (lambda x: x[None, None].permute(-3, 2, 1), "( )ᵀ"),
        (lambda x: x[None, None].permute(2, 0, 1), "permute"),
        (lambda x: x[None].permute(0, 1), "permute"),
        (lambda x: x**math.inf, "( )^inf"),
        (lambda x: x**1e300, "( )^1e+300"),
        (lambda x: x.log2(), "log2"),
        (lambda x: x.log1p(), "log1p"),
        (lambda x: x.expm1(), "expm1"),
        (lambda x: torch.atan2(x, x), "atan2"),
        (lambda x: -x, "−( )"),
        (lambda x: x**2, "( )²"),
        (lambda x: x**10, "( )¹⁰"),
        (lambda x: x**-2, "( )⁻²"),
        (lambda x: x**1, "( )¹"),
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
        (lambda x: F.pad(x, (1, 1)), "pad"),
        (lambda x: torch.ops.aten._unsafe_view(x, (1, -1)), "view"),
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


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no grouped product")
def test_a_grouped_product_says_how_many_groups_it_has():
    def leaf(*shape):
        return torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)

    ends = torch.tensor([16, 32, 48], dtype=torch.int32)
    rows = torch._grouped_mm(leaf(48, 16), leaf(3, 16, 8), offs=ends)
    assert signs(rows) == ["grouped mm, 3 groups"]
    rows.backward(torch.ones_like(rows))
    assert signs(rows) == ["grouped mm, 3 groups"]
    assert signs(torch._grouped_mm(leaf(3, 16, 16), leaf(3, 16, 8))) == ["grouped mm, 3 groups"]
    assert signs(torch._grouped_mm(leaf(16, 48), leaf(48, 8), offs=ends)) == ["grouped mm"]


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


def _said(sign: str, given: float) -> float:
    """Apply a sign to a number, as a person reads it."""
    powers = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    exponent = re.fullmatch(r"\( \)([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", sign)
    if exponent:
        return given ** int(exponent[1].translate(powers))
    known = {"−( )": -given, "1 / ( )": 1 / given if given else math.inf, "√( )": abs(given) ** 0.5}
    if sign in known:
        return known[sign]
    text = sign.replace("−", "-").replace("×", "*").replace("÷", "/").replace("^", "**")
    if "( )" in text:
        return eval(text.replace("( )", f"({given!r})"))
    is_after = text[0] in "+*/" or text.startswith("- ")
    return eval(f"({given!r}) {text}" if is_after else f"{text} ({given!r})")


_STEPS = [
    lambda x, n: x + n,
    lambda x, n: n + x,
    lambda x, n: x - n,
    lambda x, n: n - x,
    lambda x, n: x * n,
    lambda x, n: n * x,
    lambda x, n: x / n,
    lambda x, n: n / x,
    lambda x, n: x + torch.tensor(float(n), dtype=torch.float64),
    lambda x, n: torch.tensor(float(n), dtype=torch.float64) - x,
    lambda x, n: torch.sub(x, other=n),
    lambda x, n: torch.add(n, x),
    torch.rsub,
    lambda x, n: (x * 1).mul_(n),
    lambda x, n: x.div(torch.tensor([float(n)], dtype=torch.float64)).sum(),
    lambda x, n: abs(n) ** (x / 50),
    lambda x, n: x**2 / 100,
]


@pytest.mark.parametrize("seed", range(20))
def test_a_sign_with_a_number_makes_of_an_operand_what_torch_made(seed):
    chance = random.Random(seed)
    x = torch.tensor(chance.choice([1.5, -0.75, 3.0]), dtype=torch.float64, requires_grad=True)
    with watch():
        y = x
        for _ in range(12):
            y = chance.choice(_STEPS)(y, chance.choice([2, 3, -2, 0.5, -1.25, 10]))
    with closing(GraphWidget(y)) as widget:
        nodes, edges = widget.model["nodes"], widget.model["edges"]
        by = {each["source"]: each["target"] for each in edges if each["kind"] == "gradient"}
        said = 0
        for node in nodes:
            if node["kind"] == "op" and node["sign"] not in {"Σ", "sum"}:
                given = nodes[by[node["id"]]]["value"]
                given = given[0] if isinstance(given, list) else given
                value = node["value"][0] if isinstance(node["value"], list) else node["value"]
                assert _said(node["sign"], given) == pytest.approx(value), node["sign"]
                said += 1
        assert said >= 12
        constants = [node for node in nodes if node["kind"] == "constant"]
        assert constants
        assert all(nodes[each["said_by"]]["kind"] == "op" for each in constants)


def test_a_number_that_is_not_all_that_is_done_stays_beside_its_operation(x):
    named, shared = torch.tensor(2.0), torch.tensor(3.0)
    with watch():
        y = torch.add(x, 5, alpha=2) * named
        z = y + x * shared + x / shared
    with closing(GraphWidget(z.sum(), names={"named": named, "x": x})) as widget:
        nodes = widget.model["nodes"]
        assert {node["sign"] for node in nodes} == {None, "Σ", "+", "+ 2 ×", "×", "÷"}
        assert all(node["said_by"] is None for node in nodes)


def test_what_was_changed_since_is_not_said(x):
    factor = torch.tensor(2.0)
    y = x * factor
    factor += 1
    assert signs(y)[0] == "×"


@pytest.mark.parametrize(
    ("op", "sign"),
    {
        "SelectBackwardBackward0": "put at [ ]",
        "aten.slice_backward.default": "put at [ : ]",
        "TanhBackwardBackward0": "tanh ∂",
        "SoftmaxBackwardDataBackward0": "softmax ∂",
        "aten._softmax_backward_data.default": "softmax ∂",
        "aten.mm.default": "@",
        "SumBackwardAutogradNestedTensor0": "Σ",
        "CudnnConvolutionBackward0": "conv",
        "ThnnFusedLstmCellBackward0": "lstm cell",
        "NativeBatchNormLegitBackward1": "batch norm",
        "aten._unsafe_view.default": "view",
        "ToMkldnnBackward0": "to mkldnn",
    }.items(),
)
def test_a_sign_names_neither_a_backend_nor_torchs_words_for_a_derivative(op, sign):
    assert symbol_of(op) == sign


def test_a_fused_recurrent_layer_is_called_by_its_kind():
    layer = nn.LSTM(2, 3)
    assert "lstm" in signs(layer(torch.ones(4, 1, 2))[0].sum())


def test_names_without_words_stay():
    assert symbol_of("Backward0") == "Backward0"
    assert symbol_of("aten.add_.Tensor") == "+"


def test_a_custom_function_is_called_what_its_author_calls_it():
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x - 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.tensor(2.0, requires_grad=True)
    graph = GraphWidget(Add.apply(x)).model
    assert [node["sign"] for node in graph["nodes"]] == ["Add", None]


def test_signs_are_read_of_nodes_that_have_freed_what_they_saved():
    q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
    attended = F.scaled_dot_product_attention(q, k, v)  # it saves a tensor "value"
    loss = torch.addcmul(attended, attended, attended, value=2).add(attended, alpha=2).sum()
    before = [node["sign"] for node in GraphWidget(loss).model["nodes"]]
    loss.backward()
    assert [node["sign"] for node in GraphWidget(loss).model["nodes"]] == before
    assert {"attention", "+ 2 ×", "+ 2 × ×"} <= set(before)
