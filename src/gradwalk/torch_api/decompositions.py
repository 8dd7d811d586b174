"""Core operations in place of larger ones, as torch decomposes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .capability import capability

Decomposition = Callable[..., Any]


@capability(
    "torch._decomp.core_aten_decompositions",
    "torch._decomp.decomposition_table",
    otherwise=dict,
)
def _decompositions(core: Any, whole: Any) -> Callable[[], Mapping[Any, Decomposition]]:
    """Return torch's decompositions by operation; those into core operations come first."""
    if torch.ops.aten.tanh_backward.default not in core():
        raise ValueError("torch decomposes nothing.")
    return functools.cache(lambda: {**whole, **core()})


def decomposition_of(operation: Any) -> Decomposition | None:
    """Return a function that computes an operation by smaller ones; None without one."""
    return _decompositions().get(operation)


@capability("OpOverload._schema", otherwise=lambda *_: None)
def named_arguments(
    schema: Any,
) -> Callable[[Any, tuple[Any, ...], Mapping[str, Any]], dict[str, Any] | None]:
    """Return a function that names the arguments of an operation, with defaults."""

    def named(
        operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for place, argument in enumerate(schema(operation).arguments):
            name = argument.name
            given = args[place] if place < len(args) else argument.default_value
            found[name] = kwargs.get(name, given)
        return found

    if named(torch.ops.aten.add.Tensor, (1, 2), {}) != {"self": 1, "other": 2, "alpha": 1}:
        raise ValueError("torch names other arguments.")
    return named


@capability("OpOverload._schema", otherwise=lambda _: True)
def is_mutable(schema: Any) -> Callable[[Any], bool]:
    """Return a function that says whether an operation changes one of its arguments in place."""
    aten = torch.ops.aten
    if schema(aten.add.Tensor).is_mutable or not schema(aten.add_.Tensor).is_mutable:
        raise ValueError("torch does not say what operations change.")
    return lambda operation: bool(schema(operation).is_mutable)


def is_random(operation: Any) -> bool:
    """Whether an operation draws random numbers."""
    return torch.Tag.nondeterministic_seeded in operation.tags
