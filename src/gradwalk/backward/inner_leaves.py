"""Leaves that a node accumulates into by itself: those of a backward pass within its own step.

`torch.utils.checkpoint.checkpoint(..., use_reentrant=True)` makes one node of a whole part of the
program. Its backward computes that part again and runs backward through it, so parameters that are
no node of the graph get their ``.grad`` there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.nodes import node_class

MOST_LOOKED_AT = 100_000
"""Objects that are looked at for one node; a function can refer to most of a program."""


def inner_leaves(node: Node) -> list[torch.Tensor]:
    """The leaf tensors that a custom Function can reach from what it keeps for backward.

    Args:
        node: An autograd node.

    Returns:
        Leaves that require grad, from its functions, their variables, modules and containers. None
        for any node that is not the backward of a Python ``autograd.Function``.
    """
    if not node_class(type(node)).is_function:
        return []
    waiting: list[Any] = list(getattr(node, "__dict__", {}).values())
    seen: set[int] = set()
    found: dict[int, torch.Tensor] = {}
    while waiting and len(seen) < MOST_LOOKED_AT:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            if each.requires_grad and each.is_leaf:
                found[id(each)] = each
        else:
            waiting += _referred(each)
    return list(found.values())


def _referred(each: Any) -> Iterable[Any]:
    """What an object uses when it is called or looked into."""
    if isinstance(each, torch.nn.Module):
        return _instance_variables(each)
    if isinstance(each, MethodType):
        return [each.__self__, each.__func__]
    if isinstance(each, FunctionType):
        return _variables(each)
    if isinstance(each, functools.partial):
        return [each.func, *each.args, *each.keywords.values()]
    if isinstance(each, (list, tuple, set)):
        return each
    if isinstance(each, dict):
        return each.values()
    if callable(each) and not isinstance(each, type):
        return _instance_variables(each)
    return []


def _instance_variables(each: Any) -> list[Any]:
    return list(getattr(each, "__dict__", {}).values())


def _variables(function: FunctionType) -> Iterator[Any]:
    """The variables from outside that a function uses."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if function.__module__ is not None and function.__module__.split(".")[0] == "torch":
        return  # torch's own globals hold nobody's parameters
    space = function.__globals__
    for name in _names(function.__code__):
        if name in space:
            yield space[name]


def _names(code: CodeType) -> Iterator[str]:
    waiting = [code]
    for each in waiting:
        yield from each.co_names
        waiting += [inner for inner in each.co_consts if isinstance(inner, CodeType)]
