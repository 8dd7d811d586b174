"""What the nodes of a static graph take, by the names of the arguments."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.operator_schemas import get_signature_for_torch_op

from ..graph.signatures import Operator, declared_arguments

_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)
"""Python's own, which `torch.fx.symbolic_trace` leaves in place of torch's."""


def operands(node: Node, module: GraphModule) -> Iterator[tuple[str | None, Any]]:
    """(argument, value) for each node, and each number in place of a tensor, that goes in."""
    if node.target is operator.getitem and len(node.args) == 2 and isinstance(node.args[0], Node):
        yield f"[{node.args[1]}]", node.args[0]
        return
    target: Any = node.target
    declared = declared_arguments(target) if isinstance(target, Operator) else None
    names = [*declared] if declared is not None else _parameter_names(node, module)
    tensors = {name for name, is_tensor in (declared or {}).items() if is_tensor}
    if target in _ARITHMETIC:
        tensors = {"a", "b"}
    given = [*zip([*names, *[None] * len(node.args)], node.args, strict=False)]
    for argument, value in [*given, *node.kwargs.items()]:
        for name, each in flat(argument, value):
            is_number = isinstance(each, (int, float, complex)) and not isinstance(each, bool)
            if isinstance(each, Node) or (is_number and name in tensors):
                yield name, each


def flat(argument: str | None, value: Any) -> Iterator[tuple[str | None, Any]]:
    """``tensors`` with a list in it as ``tensors[0]``, ``tensors[1]``, ..."""
    inside: Any = ()
    if isinstance(value, (list, tuple)):
        inside = enumerate(value)
    elif isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, slice):
        inside = (("start", value.start), ("stop", value.stop), ("step", value.step))
    else:
        yield argument, value
    for key, each in inside:
        yield from flat(None if argument is None else f"{argument}[{key}]", each)


def _parameter_names(node: Node, module: GraphModule) -> list[str | None]:
    """What the callee calls its positional arguments, as far as it tells."""
    target: Any = node.target
    if node.op == "call_module":
        return _names_of(attribute(module, target).forward, node)
    if node.op == "call_method":  # torch.flatten takes what Tensor.flatten takes, after the tensor
        function = getattr(torch, target, None)
        return ["self", *(_names_of(function, node)[1:] if callable(function) else [])]
    return _names_of(target, node) if node.op == "call_function" else []


def _names_of(function: Callable[..., Any], node: Node) -> list[str | None]:
    try:
        signatures = [inspect.signature(function)]
    except (TypeError, ValueError):  # written in C++; torch knows its own, overload by overload
        signatures = get_signature_for_torch_op(function) or []
    for signature in signatures:
        parameters = signature.parameters.values()
        names: list[str | None] = []
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names += [p.name for p in parameters if p.kind in by_place]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):  # has no name for any one of them
            names += [None] * (len(node.args) - len(names))
        if len(names) >= len(node.args) and set(node.kwargs) <= set(signature.parameters):
            return names
    return []


def attribute(module: GraphModule, path: str) -> Any:
    """What a module keeps under a path, "encoder.weight"."""
    return operator.attrgetter(path)(module)
