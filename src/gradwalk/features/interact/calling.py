"""Calling a function of the reader's, and what its variables are when it returns."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from ...notebook import with_outer
from ...tracing.watch import watch


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
    with _entered(function) as frames:
        with torch.enable_grad(), watch():
            result = function(**arguments)
        # A frame that somebody holds keeps its variables when it returns.
        return result, with_outer(dict(frames[0].f_locals), frames[0]) if frames else {}


@contextmanager
def _entered(function: Callable[..., Any]) -> Iterator[list[FrameType]]:
    """Within it, the frame that the function first runs in is put into the list that this gives.

    A debugger, or whatever else traces, is left alone: intermediate results then go without names.
    """
    frames: list[FrameType] = []
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or sys.gettrace() is not None:
        yield frames
        return

    def called_one(frame: FrameType, _: str, __: Any) -> None:
        if frame.f_code is code:
            frames.append(frame)
            # What traces to the end has Python stop at every instruction, which costs twice as
            # much as everything else that is done to watch the function.
            sys.settrace(None)

    sys.settrace(called_one)
    try:
        yield frames
    finally:
        if sys.gettrace() is called_one:
            sys.settrace(None)
        frames.clear()  # a frame knows its caller's, which knows this list


def tensors_in(result: Any) -> list[torch.Tensor]:
    """The tensors that require grad among what a function returned."""
    if isinstance(result, torch.Tensor):
        return [result] if result.requires_grad else []
    items = result.values() if isinstance(result, Mapping) else result
    if not isinstance(result, (list, tuple, Mapping)):
        return []
    return [tensor for item in items for tensor in tensors_in(item)]


def kind_of(result: Any) -> str:
    """Describe the result of a function: "a tensor of one number", "a tuple of 2"."""
    if isinstance(result, torch.Tensor):
        shape = tuple(result.shape)
        return "a tensor of one number" if result.numel() == 1 else f"a tensor of shape {shape}"
    if isinstance(result, (list, tuple, dict)):
        return f"a {type(result).__name__} of {len(result)}"
    if result is None:
        return "None"
    name = type(result).__name__
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"
