"""The watch of the cell that a thread runs, from when torch is imported until the cell ends."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from ...hosts.torch_import import ImportOfTorch
from ...tracing.tracebacks import without_watch


class _Cell(threading.local):
    """The watch of the cell that this thread runs."""

    import_of_torch: ImportOfTorch | None = None
    block: AbstractContextManager[None] | None = None
    mode: Any = None  # torch's mode of that block; None if an outer block watches already
    raised: tuple[BaseException, TracebackType | None] | None = None


_cell = _Cell()
_said: set[str] = set()


def begin() -> None:
    """Watch the rest of the running cell; before ``import torch``, from that on."""
    if _cell.block is not None or _cell.import_of_torch is not None:
        return
    if "torch" in sys.modules:
        _enter()
    else:
        _cell.import_of_torch = ImportOfTorch(_enter)
        sys.meta_path.insert(0, _cell.import_of_torch)


def shorten_traceback(error: BaseException) -> None:
    """Remove the watch from the traceback of an exception, before it is shown."""
    if _cell.block is not None or _cell.import_of_torch is not None:
        _cell.raised = error, error.__traceback__
        without_watch(error)


def end(error: BaseException | None = None) -> None:
    """End the watch of the cell; ``error``: the exception that ended the cell."""
    waiting, block, mode, raised = _cell.import_of_torch, _cell.block, _cell.mode, _cell.raised
    _cell.import_of_torch = _cell.block = _cell.mode = _cell.raised = None
    if waiting is not None and waiting in sys.meta_path:
        sys.meta_path.remove(waiting)
    if block is not None:
        _exit(block, mode, error, raised[1] if raised and raised[0] is error else None)


def _enter() -> None:
    # An error would look like one of the cell, or of its `import torch`.
    try:
        _enter_block()
    except Exception as error:
        sentence = f"gradwalk cannot watch cells. {type(error).__name__}: {error}"
        if sentence not in _said:
            _said.add(sentence)
            print(sentence)  # noqa: T201


def _enter_block() -> None:
    # Not at the top: the program has to import torch first, after what it sets for that.
    from ...torch_api.modes import lowest_mode, top_mode  # noqa: PLC0415
    from ...tracing import failed_call  # noqa: PLC0415
    from ...tracing.watch import watch  # noqa: PLC0415

    failed, block = failed_call.last(), watch()
    with lowest_mode(None):
        before = top_mode()
        block.__enter__()
        after = top_mode()
    failed_call.keep(failed)  # a cell can ask for the failure of an earlier one
    _cell.block, _cell.mode = block, None if after is before else after


def _exit(
    block: AbstractContextManager[None],
    mode: Any,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Leave a block; ``traceback``: that of ``error``, with the watched call that failed."""
    from ...torch_api.modes import lowest_mode  # noqa: PLC0415
    from ...tracing import failed_call  # noqa: PLC0415

    failed, shown = failed_call.last(), error.__traceback__ if error is not None else None
    if error is not None and traceback is not None:
        error.__traceback__ = traceback
    try:
        with lowest_mode(mode):
            block.__exit__(type(error) if error is not None else None, error, traceback)
    finally:
        if error is not None:
            error.__traceback__ = shown
    found = failed_call.last()
    if found is not failed and found is not None and found.call is None and found.module is None:
        failed_call.keep(failed)  # a misspelt name does not replace what failed in torch
