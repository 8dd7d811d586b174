"""Find the ``autograd.Function`` whose ``forward`` is running.

Its ``apply`` may leave no Python frame, so its ``forward`` is recognised by its code.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from ..hosts.this_host import frame_locals
from ..torch_api.nodes import custom_function, takes_context

_MOST_KNOWN = 8192  # code objects


class RunningFunction(NamedTuple):
    """A Function whose ``forward`` is running."""

    function: type[torch.autograd.Function]
    frame: FrameType  # the frame of ``forward``

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of ``apply``, as ``forward`` holds them now."""
        code, values = self.frame.f_code, frame_locals(self.frame)
        names = code.co_varnames[: code.co_argcount]
        given = [values.get(name) for name in names]
        if code.co_flags & inspect.CO_VARARGS:
            given += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
        return tuple(given[1:] if takes_context(self.function) else given)

    @property
    def caller(self) -> FrameType | None:
        """The frame that called ``apply``, or one of torch's below it."""
        return self.frame.f_back


def running_function() -> RunningFunction | None:
    """Return the outermost Function of this thread whose ``forward`` is running."""
    found = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if function_of(frame.f_code) is not None:
            found = frame
        frame = frame.f_back
    return None if found is None else running_in(found)


def running_in(frame: FrameType) -> RunningFunction | None:
    """Return the Function whose ``forward`` a frame runs; None for any other frame."""
    function = function_of(frame.f_code)
    if function is None:
        return None
    # ``forward`` may be inherited; its context knows the class that ``apply`` was called on.
    first = frame.f_code.co_varnames[:1]
    context = frame_locals(frame).get(first[0]) if first else None
    return RunningFunction(custom_function(context) or function, frame)


_known: dict[int, tuple[CodeType, weakref.ref[type[torch.autograd.Function]] | None]] = {}
"""By id: equal code of two files compares as equal. The code is held, so that no id is reused."""


def function_of(code: CodeType) -> type[torch.autograd.Function] | None:
    """Return the Function with this code as its ``forward``; None for any other code."""
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = next((each for each in _functions() if _is_forward(each, code)), None)
        known = _known[id(code)] = code, None if found is None else weakref.ref(found)
    return None if known[1] is None else known[1]()


def _is_forward(function: type[torch.autograd.Function], code: CodeType) -> bool:
    # Also behind a decorator, such as torch.amp.custom_fwd.
    return getattr(inspect.unwrap(function.forward), "__code__", None) is code


def _functions() -> Iterator[type[torch.autograd.Function]]:
    waiting: list[Any] = [torch.autograd.Function]
    while waiting:
        for each in waiting.pop().__subclasses__():
            waiting.append(each)
            yield each
