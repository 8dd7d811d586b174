"""Optimizers of a planned step, with the state that they have in a later one."""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ...english import nearest
from .copies import Fakes
from .errors import of_plan

_GROWS = "The history of LBFGS"


def make_optimizer(
    given: Any, model: nn.Module, fakes: Fakes
) -> tuple[torch.optim.Optimizer, str | None]:
    """Make an optimizer with the state that it has after a first step.

    Returns:
        The optimizer, and what its later state has that is not counted, as the start of a sentence.
    """
    parameters = [each for each in model.parameters() if each.requires_grad]
    if isinstance(given, torch.optim.Optimizer):
        optimizer: Any = _copied(given, model, fakes)
    else:
        optimizer = (_named(given) if isinstance(given, str) else given)(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        text = (
            f"optimizer returned a {type(optimizer).__name__}. Give a class such as "
            "torch.optim.AdamW, or a function that makes an optimizer of a list of parameters."
        )
        raise of_plan(TypeError(text))
    if not optimizer.state:
        _first_step(optimizer)
    return optimizer, _GROWS if isinstance(optimizer, torch.optim.LBFGS) else None


def check_optimizer(given: Any) -> None:
    """Raise an error for something that makes no optimizer."""
    if isinstance(given, str):
        _named(given)
    elif given is not None and not callable(given) and not isinstance(given, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer was given a {type(given).__name__}. Give an optimizer, its class or its "
            "name, or a function that makes one of a list of parameters."
        )


def step_optimizer(optimizer: torch.optim.Optimizer, forward: Callable[[], torch.Tensor]) -> None:
    """Take a step; one that needs a closure runs forward and backward again."""
    if not _needs_closure(optimizer):
        optimizer.step()
        return

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        again = forward()
        again.backward()  # type: ignore[no-untyped-call]
        return again

    optimizer.step(closure)  # type: ignore[arg-type]


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    try:
        closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    except (TypeError, ValueError):
        return False
    return closure is not None and closure.default is inspect.Parameter.empty


def _named(name: str) -> Any:
    """Return the class of an optimizer of torch by its name."""
    known = {
        key.lower(): value
        for key, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
    }
    found = known.get(name.lower())
    if found is None or found is torch.optim.Optimizer:
        names = [each.__name__ for each in known.values()]
        near = nearest(name, names) or "Give the name of a class in torch.optim, such as 'AdamW'."
        raise ValueError(f"optimizer was given {name!r}, which torch.optim does not have. {near}")
    return found


def _copied(given: torch.optim.Optimizer, model: nn.Module, fakes: Fakes) -> torch.optim.Optimizer:
    """Copy an optimizer for the copies of its parameters, with its state."""
    own = {id(each) for each in model.parameters()}
    groups = [
        {**group, "params": [fakes.of(each) for each in group["params"]]}
        for group in given.param_groups
    ]
    if not all(id(each) in own for group in groups for each in group["params"]):
        text = (
            "optimizer was given an instance whose parameters are not the model's. Give its class, "
            "or a function that makes one of a list of parameters."
        )
        raise of_plan(ValueError(text))
    optimizer = copy.copy(given)
    optimizer.param_groups = groups
    optimizer.state = defaultdict(dict)
    for parameter, state in given.state.items():
        optimizer.state[fakes.of(parameter)] = fakes.tree(dict(state))
    return optimizer


def _first_step(optimizer: torch.optim.Optimizer) -> None:
    """Take a step with gradients of zero, and put back the gradients that were there."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    parameters = [each for each in parameters if each.requires_grad]
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    if _needs_closure(optimizer):
        total = sum(parameter.sum() for parameter in parameters)
        optimizer.step(lambda: total)
    else:
        optimizer.step()
    for parameter, grad in zip(parameters, before, strict=True):
        parameter.grad = grad
