"""The host that runs this program, and the variables that its code sees."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

from .host import Host
from .ipython import IPython
from .marimo import Marimo

_HOSTS = (IPython, Marimo, Host)  # the known hosts; the first that runs is asked


def this_host() -> Host:
    """Return the host that runs this program."""
    return next(filter(None, (kind.running() for kind in _HOSTS)))


_FRAME_AND_WE = 3  # the frame, a variable here, and the argument of getrefcount


def caller_variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables that a piece of code sees, its own first."""
    return with_outer(frame_locals(frame), frame)


def frame_locals(frame: FrameType) -> dict[str, Any]:
    """Return a copy of a frame's variables, of which the frame keeps nothing."""
    snapshot = frame.f_locals
    variables = dict(snapshot)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        # f_locals is a copy that the frame keeps: it would keep alive what the function deletes
        # later. Do not clear it if the function itself has it, from a call of locals().
        if sys.getrefcount(snapshot) <= _FRAME_AND_WE:
            snapshot.clear()
    return variables


def with_outer(variables: dict[str, Any], frame: FrameType) -> dict[str, Any]:
    """Add a frame's globals and the notebook's variables to its own."""
    for outer in (frame.f_globals, this_host().variables()):
        for name, value in list(outer.items()):
            variables.setdefault(name, value)
    return variables
