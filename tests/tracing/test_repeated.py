"""Operations inside backward that are repeated give what the program computed, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from gradwalk import GraphWidget, watch
from gradwalk.torch_api.engine import next_sequence_nr
from gradwalk.torch_api.summary import plain_values


class Recorder(TorchDispatchMode):
    """Records the result of each operation by the number of the autograd node that it made."""

    def __init__(self) -> None:
        super().__init__()
        self.results: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        number = next_sequence_nr() - 1
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and number not in self.results:
            self.results[number] = plain_values(result)
        return result


def grad(y: Tensor, *of: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y, of, create_graph=True)


def number(value: float, dtype: torch.dtype | None = None) -> Tensor:
    return torch.tensor(value, dtype=dtype, requires_grad=True)


def vector(count: int = 3) -> Tensor:
    return torch.randn(count, requires_grad=True)


def chain_of(*steps: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
    def program() -> Tensor:
        x = number(0.7)
        y = x
        for step in steps:
            y = step(y)
        return grad(y, x)[0]

    return program


def gradient_penalty() -> Tensor:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.randn(2, 2, requires_grad=True)
    return (grad(model(x).sum(), x)[0].norm(dim=1) - 1).square().mean()


def penalty_of_relu() -> Tensor:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(2, 2, requires_grad=True)
    return grad(model(x).sum(), x)[0].square().sum()


def penalty_of_weights() -> Tensor:
    w = torch.tensor([[1.0, -2.0], [0.5, 4.0]], requires_grad=True)
    x = torch.tensor([1.0, 3.0])
    return grad((w @ x).square().sum(), w)[0].square().sum()


def hessian_row() -> Tensor:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    return grad(x[0] ** 2 * x[1] + x[1] ** 3, x)[0]


def hessian_vector_product() -> Tensor:
    x = vector()
    (g,) = grad((x**3).sum() + x[0] * x[2], x)
    return grad(g @ torch.tensor([1.0, -0.5, 2.0]), x)[0]


def third_derivative() -> Tensor:
    x = number(1.3)
    y = x**5
    for _ in range(3):
        (y,) = grad(y, x)
    return y


def third_derivative_of_sine() -> Tensor:
    x = number(0.3, torch.float64)
    y = x.sin() * x
    for _ in range(3):
        (y,) = grad(y, x)
    return y


def maml() -> Tensor:
    w, b = number(0.5), number(-1.0)
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 6.5])
    dw, db = grad(((w * x + b - y) ** 2).mean(), w, b)
    return (((w - 0.1 * dw) * x + (b - 0.1 * db) - y) ** 2).mean()


def jacobian_row() -> Tensor:
    x = vector(2)
    y = torch.stack([x[0] * x[1], x[0] / x[1]])
    return grad(y[1], x)[0]


def slices() -> Tensor:
    x = vector(4)
    return grad((x[1:] * x[:-1]).sum(), x)[0]


def broadcast() -> Tensor:
    x = vector()
    return grad((x[:, None] * x[None]).sum(), x)[0]


def weighted() -> Tensor:
    x = vector()
    return torch.autograd.grad(x**2, x, grad_outputs=torch.ones(3) / 3, create_graph=True)[0]


def backward_with_graph() -> Tensor:
    x = vector()
    (x**3).sum().backward(create_graph=True)
    assert x.grad is not None
    found = x.grad * 2
    x.grad = None  # else the graph is a circle
    return found


def with_hook() -> Tensor:
    x = number(2.0)
    h = x * 3
    h.register_hook(lambda g: g * 0.5)
    return grad(h**2 + h, x)[0]


def divided_by_constant() -> Tensor:
    x, c = vector(), torch.tensor([2.0, 3.0, 7.0])
    return grad(((x**2) / c).sum() / 3, x)[0]


def norm() -> Tensor:
    x = vector()
    return grad(x.norm() + x.sqrt().nansum(), x)[0]


def softmax() -> Tensor:
    x = vector()
    return grad(-x.log_softmax(0)[1] + x.softmax(0)[0], x)[0]


def cross_entropy() -> Tensor:
    w = torch.randn(2, 3, requires_grad=True)
    loss = F.cross_entropy(torch.ones(4, 2) @ w, torch.tensor([0, 1, 2, 0]))
    return grad(loss, w)[0].abs().sum()


def empty_and_special() -> Tensor:
    x = torch.tensor([0.0, float("inf"), float("nan"), -0.0], requires_grad=True)
    return grad((x * x).sum(), x)[0]


PROGRAMS = {
    program.__name__: program
    for program in (
        gradient_penalty,
        penalty_of_relu,
        penalty_of_weights,
        hessian_row,
        hessian_vector_product,
        third_derivative,
        third_derivative_of_sine,
        maml,
        jacobian_row,
        slices,
        broadcast,
        weighted,
        backward_with_graph,
        with_hook,
        divided_by_constant,
        norm,
        softmax,
        cross_entropy,
        empty_and_special,
    )
} | {
    "tanh, exp": chain_of(torch.tanh, torch.exp),
    "log, divided": chain_of(lambda x: x + 2, torch.log, lambda x: 1 / x),
    "sigmoid, cos": chain_of(torch.sigmoid, torch.cos),
    "power, neg": chain_of(lambda x: x**2.5, torch.neg, lambda x: x.abs()),
    "base": chain_of(lambda x: 2**x, torch.sin),
    "silu, gelu": chain_of(F.silu, F.gelu, F.softplus),
}
_COMPLETE = {
    "hessian_row",
    "third_derivative_of_sine",
    "maml",
    "slices",
    "weighted",
    "penalty_of_weights",
}


def shown_and_made(program: Callable[[], Tensor]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield each operation with what it gave, after comparing that with the shown value."""
    torch.manual_seed(0)
    with Recorder() as seen, watch():
        result = program()
    with closing(GraphWidget(result)) as widget:
        nodes = widget._source.captured.nodes
        for node in widget.model["nodes"]:
            if node["kind"] == "op":
                yield node, seen.results.get(nodes[node["id"]]._sequence_nr())


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_inside_backward_are_what_the_program_computed(name: str) -> None:
    count = 0
    for node, made in shown_and_made(PROGRAMS[name]):
        if node["value"] is not None:
            assert repr(node["value"]) == repr(made), node["op"]
            count += node["in_backward"]
        assert node["value"] is not None or name not in _COMPLETE
    assert count


def changed_before_backward() -> Tensor:
    x = vector()
    y = (x**2 + x).square().sum()
    x.data.mul_(2)
    return grad(y, x)[0]


def changed_later() -> Tensor:
    x = vector()
    (g,) = grad((x**3).sum(), x)
    with torch.no_grad():
        x.mul_(2)
    return g


def constant_changed_later() -> Tensor:
    x, c = vector(), torch.tensor([2.0, 3.0, 7.0])
    (g,) = grad((x**2 * c).sum(), x)
    c.data.mul_(2)
    return g


def changed_by_hook() -> Tensor:
    x = vector()
    h = x * 2

    def triple(gradient: Tensor) -> None:
        gradient.data.mul_(3)

    h.register_hook(triple)
    return grad((h**3).sum(), x)[0]


def intermediate_changed() -> Tensor:
    x = vector()
    h = x * 2
    y = h**3
    h.data.mul_(2)
    return grad(y.sum(), x)[0]


@pytest.mark.parametrize(
    "program",
    [
        changed_before_backward,
        changed_later,
        constant_changed_later,
        changed_by_hook,
        intermediate_changed,
    ],
)
def test_no_result_follows_from_a_value_that_has_changed(program: Callable[[], Tensor]) -> None:
    for node, made in shown_and_made(program):
        if node["value"] is not None and node["in_backward"]:
            assert repr(node["value"]) == repr(made), node["op"]


@pytest.mark.parametrize(("values", "is_known"), [([1.0, 2.5, -4.0], True), (None, False)])
def test_a_sum_is_repeated_only_if_its_order_is_known_or_changes_nothing(
    values: list[float] | None, is_known: bool
) -> None:
    def program() -> Tensor:
        x = vector() if values is None else torch.tensor(values, requires_grad=True)
        return grad((x[:, None] * x[None]).sum(), x)[0]

    found = list(shown_and_made(program))
    sums = [node["value"] is not None for node, _ in found if node["op"] == "SumBackward1"]
    assert sums == [is_known, is_known]
    assert all(repr(node["value"]) == repr(made) for node, made in found if node["value"])


def test_the_panel_says_that_a_result_was_computed_again() -> None:
    with watch():
        result = hessian_row()
    with closing(GraphWidget(result)) as widget:
        node = next(each for each in widget.model["nodes"] if each["sign"] == "put at [0]")
        assert node["value"] == [4.0, 0.0]
        widget.selected = node["id"]
        value = widget.details["value"]
        assert value is not None
        assert value["values"] == [4.0, 0.0]
        assert value["origin"].startswith("Computed again")


def test_nothing_is_repeated_in_a_graph_without_derivatives() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with closing(GraphWidget((x * 2).sum() * 3)) as widget:
        assert any(node["value"] is None for node in widget.model["nodes"])


def test_large_graphs_keep_what_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> int:
        with watch():
            x = number(2.0)
            (first,) = grad(x**3, x)
            loss = first * first
        with closing(GraphWidget(loss)) as widget:
            return [node["value"] for node in widget.model["nodes"]].count(None)

    known = unknown()
    monkeypatch.setattr("gradwalk.tracing.repeated._MOST_OPERATIONS", 3)
    assert unknown() > known
