"""Terms of a loss that train nothing, and healthy losses that look like them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradwalk import diagnose, explain_grad, record, watch
from gradwalk.checks.finding import Finding

X, Y = torch.randn(8, 4), torch.randint(3, (8,))
SHARES = torch.full((3,), 1 / 3)


def found_in(term: Callable[[nn.Module, Tensor], Tensor], watched: bool = True) -> list[Finding]:
    torch.manual_seed(0)
    net = nn.Linear(4, 3)
    if watched:
        with watch():
            loss = term(net, net(X))
    else:
        loss = term(net, net(X))
    found = diagnose(record(loss), names=net)
    assert {each.severity for each in found} <= {"info"}
    return [each for each in found if each.kind == "constant-term"]


def plus(term: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda _, out: F.cross_entropy(out, Y) + 0.1 * term(out)


def minus(_: nn.Module, out: Tensor) -> Tensor:
    return (F.cross_entropy(out, Y) - (out.argmax(1) == Y).float().mean()) / 2


def stacked(_: nn.Module, out: Tensor) -> Tensor:
    return torch.stack([F.cross_entropy(out, Y), (out > 0).float().mean()]).sum()


CONSTANT: dict[str, tuple[Callable[[nn.Module, Tensor], Tensor], str]] = {
    "histc": (
        plus(lambda out: F.l1_loss(torch.histc(out, 3), SHARES)),
        "an operation without a derivative",
    ),
    "argmax": (plus(lambda out: out.argmax(1).float().mean()), "integers"),
    "accuracy": (minus, "integers"),
    "item": (plus(lambda out: torch.tensor(out.norm().item())), "item()"),
    "copy": (plus(lambda out: torch.tensor(out.norm())), "a copy"),
    "stack": (stacked, "integers"),
    "round": (plus(lambda out: out.round().abs().mean()), "RoundBackward0"),
    "sign": (plus(lambda out: (out.sign() * X[:, :3]).sum()), "SignBackward0"),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("name", CONSTANT)
def test_a_term_without_a_gradient(name: str):
    term, words = CONSTANT[name]
    (found,) = found_in(term)
    assert "trains nothing" in found.message
    assert words in found.message


@pytest.mark.parametrize("name", ["round", "sign"])
def test_a_slope_of_zero_is_seen_unwatched(name: str):
    assert len(found_in(CONSTANT[name][0], watched=False)) == 1


def straight_through(net: nn.Module, out: Tensor) -> Tensor:
    hard = out + (out.round() - out).detach()
    return F.cross_entropy(hard, Y) + hard.square().mean()


def straight_through_number(_: nn.Module, out: Tensor) -> Tensor:
    soft = out.sigmoid().mean()
    return (soft > 0.5).float() - soft.detach() + soft


def by_value(_: nn.Module, out: Tensor) -> Tensor:
    loss, true = F.cross_entropy(out, Y), (out.argmax(1) != Y).float().mean()
    return loss + (true - loss).detach()


HEALTHY: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "straight-through": straight_through,
    "straight-through of a number": straight_through_number,
    "another value": by_value,
    "mask": plus(lambda out: (out * (out > 0).float()).sum() / (out > 0).float().sum()),
    "detached on purpose": plus(lambda out: out.norm().detach()),
    "scaled by its value": lambda _, out: F.cross_entropy(out, Y) / out.norm().item(),
    "a number": lambda _, out: (F.cross_entropy(out, Y) - 0.1).abs() + 0.1,
    "target": plus(lambda out: F.mse_loss(out, F.one_hot(out.argmax(1), 3).float())),
    "margin": plus(lambda out: (out - 100).relu().mean()),
    "sorted": plus(lambda out: out.sort(0).values[0].mean()),
    "sign beside a slope": plus(lambda out: (out.sign() * out).mean()),
    "slogdet": plus(lambda out: torch.linalg.slogdet(out[:3])[1]),
    "shape": plus(lambda out: (out - torch.zeros(3).expand_as(out).to(out)).mean()),
    "constant of the data": plus(lambda out: torch.histc(X, 3).mean()),
}


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_loss_is_silent(name: str, watched: bool):
    assert not found_in(HEALTHY[name], watched)


def test_metrics_beside_the_loss_are_silent():
    def term(_: nn.Module, out: Tensor) -> Tensor:
        loss = F.cross_entropy(out, Y)
        total = (out.argmax(1) == Y).float().sum() + torch.histc(out, 4).sum() + loss.item()
        assert not total.requires_grad
        return loss

    assert not found_in(term)


def test_explain_grad_names_an_operation_without_a_derivative():
    w, other = torch.randn(5, requires_grad=True), torch.ones(2, requires_grad=True)
    with watch():
        loss = (torch.histc(w * 2, 2) * other).sum()
    text = str(explain_grad(w, loss))
    assert "torch has no derivative of the operation on a tensor computed from w" in text
