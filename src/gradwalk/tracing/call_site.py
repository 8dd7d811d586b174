"""Call torch's functions from the user's line, so that their warnings name it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

_MOST_SITES = 4096

# By the id of the caller's code and the instruction. The caller's is held, so that no id is used
# twice. No globals are: they may hold tensors.
_sites: dict[tuple[int, int], tuple[CodeType, CodeType]] = {}

_DISPATCHER = getattr(torch.overrides.handle_torch_function, "__code__", None)


def _template() -> CodeType:
    """Return the code of a call without columns: tracebacks would mark them in another text."""
    tree = ast.parse("lambda _function, _args, _kwargs: _function(*_args, **_kwargs)", mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.arg, ast.keyword)):
            node.col_offset = node.end_col_offset = -1
    code = compile(tree, "<call>", "eval")
    return next(each for each in code.co_consts if isinstance(each, CodeType))


_TEMPLATE = _template()


def call_at(frame: FrameType) -> Callable[[Callable[..., Any], tuple[Any, ...], Any], Any]:
    """Return a function that calls another one from the running line of ``frame``.

    Python files a warning under the line of the function that called, and shows it once for each
    line. Under a mode every call comes from one line of the mode.

    Args:
        frame: The frame that called the mode.
    """
    code = frame.f_code
    if code is _DISPATCHER and frame.f_back is not None and frame.f_back.f_back is not None:
        frame = frame.f_back.f_back  # above it is torch's function, which runs again
        code = frame.f_code
    key = id(code), frame.f_lasti
    site = _sites.get(key)
    if site is None:
        if len(_sites) >= _MOST_SITES:
            _sites.clear()
        own = _TEMPLATE.replace(
            co_filename=code.co_filename, co_firstlineno=frame.f_lineno or 1, co_name=code.co_name
        )
        site = _sites[key] = code, own
    return FunctionType(site[1], frame.f_globals)


def leave_out(error: BaseException) -> None:
    """Take the function of `call_at` out of an error's traceback, where its caller catches it."""
    here = error.__traceback__
    if here is not None and here.tb_next is not None:
        here.tb_next = here.tb_next.tb_next
