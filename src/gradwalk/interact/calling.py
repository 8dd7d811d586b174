"""Calling a function of the reader's, and what its variables are when it returns."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from ..forward.watch import watch
from ..notebook import with_outer


def called(
    function: Callable[..., Any], arguments: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Call a function, watched.

    Args:
        function: The function.
        arguments: By name.

    Returns:
        What it returned, and the variables that its code saw when it did: its own, its module's,
        the notebook's.
    """
    found: dict[str, Any] = {}
    with _returning(function, found), torch.enable_grad(), watch():
        result = function(**arguments)
    return result, found


@contextmanager
def _returning(function: Callable[..., Any], found: dict[str, Any]) -> Iterator[None]:
    """Within it, the variables of the function are put into ``found`` when it returns.

    A debugger, or whatever else traces, is left alone: intermediate results then go without names.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or sys.gettrace() is not None:
        yield
        return

    def called_one(frame: FrameType, _: str, __: Any) -> Any:
        if frame.f_code is not code:
            return None  # nothing more is told of it, so that it costs next to nothing
        frame.f_trace_lines = False
        return see

    def see(frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            # A copy: Python writes what is in the frame's own one back into the running function.
            found.clear()
            found.update(with_outer(dict(frame.f_locals), frame))
        return see

    sys.settrace(called_one)
    try:
        yield
    finally:
        sys.settrace(None)


def tensors_in(result: Any) -> list[torch.Tensor]:
    """The tensors that require grad among what a function returned."""
    if isinstance(result, torch.Tensor):
        return [result] if result.requires_grad else []
    items = result.values() if isinstance(result, Mapping) else result
    if not isinstance(result, (list, tuple, Mapping)):
        return []
    return [tensor for item in items for tensor in tensors_in(item)]


def kind_of(result: Any) -> str:
    """What a function returned, in words: "a tensor of one number", "a tuple of 2"."""
    if isinstance(result, torch.Tensor):
        shape = tuple(result.shape)
        return "a tensor of one number" if result.numel() == 1 else f"a tensor of shape {shape}"
    if isinstance(result, (list, tuple, dict)):
        return f"a {type(result).__name__} of {len(result)}"
    if result is None:
        return "None"
    name = type(result).__name__
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"
