"""``%load_ext gradwalk``: every cell of an IPython shell runs watched. ``%%watch`` is for one."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import warnings
from typing import Any

from ...hosts.ipython import runs_cell
from .cell_watch import begin, end, shorten_traceback

_LOADED = (
    "gradwalk watches every cell from now on, at the cost of watch(). %unload_ext gradwalk ends it."
)
_NO_TORCH = (
    "gradwalk watches PyTorch, which is not installed here. Install it (%pip install torch); cells "
    "that import it are then watched."
)
_MARK = re.compile(r"\s*%%watch[ \t]*(\n|$)")
_MEASURES = re.compile(r"^\s*(\w+\s*=\s*)?%%?(time|timeit|prun|lprun)\b", re.MULTILINE)
"""Magics that measure the program: the watch would be measured with it."""
_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""Begins a warning of torch that the hooks of `watch` would cause in each cell with such a call."""

_said: set[str] = set()


def load_ipython_extension(shell: Any) -> None:
    """Watch every cell of a shell, from the rest of this one on."""
    events = shell.events
    if _watch_cell in events.callbacks["pre_run_cell"]:
        return
    if _end_cell not in events.callbacks["post_run_cell"]:  # the first time
        _add_magic(shell)
        _shorten_tracebacks(shell)
        warnings.filterwarnings("ignore", _HOOKS, UserWarning)
    events.register("pre_run_cell", _watch_cell)
    if runs_cell():
        begin()
    if not _has_torch():
        print(_NO_TORCH)  # noqa: T201
    elif _LOADED not in _said:
        _said.add(_LOADED)
        print(_LOADED)  # noqa: T201


def unload_ipython_extension(shell: Any) -> None:
    """End it, in this cell, too. The magic ``%%watch`` remains."""
    if _watch_cell in shell.events.callbacks["pre_run_cell"]:
        shell.events.unregister("pre_run_cell", _watch_cell)
        end()


def _has_torch() -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return "torch" in sys.modules or importlib.util.find_spec("torch") is not None
    return False


def _add_magic(shell: Any) -> None:
    def watch(line: str, cell: str) -> None:
        """Watch this cell: ``%%watch`` is like ``with gradwalk.watch():`` around the cell."""
        if line.strip():
            from IPython.core.error import UsageError  # noqa: PLC0415  only notebooks have it

            raise UsageError(f"%%watch takes no arguments, but was given {line!r}. Remove them.")
        shell.run_cell(f"%%watch\n{cell}")  # not in this cell: another magic has called this

    shell.register_magic_function(watch, "cell", "watch")
    shell.input_transformers_cleanup.append(_without_mark)
    shell.events.register("pre_run_cell", _end_cell)  # somebody may run a cell and not say its end
    shell.events.register("pre_run_cell", _watch_marked_cell)
    shell.events.register("post_run_cell", _end_cell)


def _shorten_tracebacks(shell: Any) -> None:
    show = shell.showtraceback

    def showtraceback(given: Any = None, *args: Any, **keywords: Any) -> None:
        kind, error, _ = sys.exc_info()
        if given is None and error is not None:
            with contextlib.suppress(Exception):
                shorten_traceback(error)
                given = kind, error, error.__traceback__
        show(given, *args, **keywords)

    shell.showtraceback = showtraceback


def _without_mark(lines: list[str]) -> list[str]:
    """Remove the line ``%%watch``: the rest is a cell like any other, which may await."""
    if not lines or not _MARK.fullmatch(lines[0]):
        return lines
    is_magic = len(lines) > 1 and lines[1].startswith("%%")  # which has to be in the first line
    return lines[1:] if is_magic else ["\n", *lines[1:]]


_without_mark.has_side_effects = True  # type: ignore[attr-defined]  # no part of a cell being typed


def _watch_cell(info: Any) -> None:
    if not _MEASURES.search(info.raw_cell):
        begin()


def _watch_marked_cell(info: Any) -> None:
    if _MARK.match(info.raw_cell):
        begin()


def _end_cell(result: Any = None) -> None:
    """End the watch with the cell; a cell that another cell runs ends with that one."""
    if not runs_cell():
        end(getattr(result, "error_in_exec", None))
