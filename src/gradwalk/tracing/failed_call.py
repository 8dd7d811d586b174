"""The call that raised in a block of `watch()`, read from the traceback as the block ends."""

from __future__ import annotations

import contextlib
import enum
import threading
import traceback
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, TracebackType

import torch
from torch import nn

from ..graph.capture import as_text
from ..hosts.this_host import caller_variables, frame_locals
from ..result import make, returned_by
from ..torch_api.modes import unseen, without_overrides
from ..torch_api.modules import own_parameters
from ..torch_api.reading import shape_of
from .module_path import names_of_submodules
from .operands import Operand, function_name, operands
from .running_function import running_in
from .source_line import SourceLine, is_library, line_of


@returned_by("last_failure()")
@dataclass(frozen=True, eq=False)
class FailedInput:
    """A tensor that a failing call was given, as it was then.

    Attributes:
        name: The variable on the failing line, or the parameter's name in the model; else None.
        shape: Its shape.
        dtype: Its dtype, as "float32".
        device: Its device, as "cpu".
        requires_grad: Whether it requires grad.
    """

    name: str | None
    shape: tuple[int, ...]
    dtype: str
    device: str
    requires_grad: bool
    _tensor: torch.Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class FailedCall:
    """A call that raised; it keeps the inputs alive and no frame."""

    call: str | None
    inputs: tuple[FailedInput, ...]
    line: SourceLine | None
    module: str | None
    model: weakref.ref[nn.Module] | None
    error: str
    stage: Stage


class Stage(enum.Enum):
    """The stage of a program that raised, as the subject of a sentence."""

    FORWARD = "The forward pass"
    BACKWARD = "The backward pass"
    STEP = "The step of the optimizer"
    OWN = "The program"


_BACKWARD = tuple(
    getattr(each, "__code__", None)
    for each in (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
)


_local = threading.local()


def last() -> FailedCall | None:
    """Return the failure of this thread's latest watch."""
    found: FailedCall | None = getattr(_local, "failed", None)
    return found


def keep(failed: FailedCall | None) -> None:
    """Set the failure; None forgets it, and lets go of its inputs."""
    _local.failed = failed


def note(error: BaseException, calls: CodeType) -> None:
    """Note an exception that leaves a watch; ``calls`` is the code that ran torch's functions."""
    with contextlib.suppress(Exception), without_overrides(), unseen():
        _local.failed = _read(error, error.__traceback__, calls)


def _read(error: BaseException, at: TracebackType | None, calls: CodeType) -> FailedCall:
    running: list[nn.Module] = []
    name: str | None = None
    given: list[Operand] = []
    runs_module = getattr(nn.Module.__call__, "__code__", None)
    users: TracebackType | None = None
    stage = Stage.OWN
    while at is not None:
        code = at.tb_frame.f_code
        stage = _stage(at.tb_frame) or stage
        if code is runs_module:
            running.append(frame_locals(at.tb_frame)["self"])
        elif code is calls:
            called = frame_locals(at.tb_frame)
            name = function_name(called["func"])
            given = operands(called["args"], called.get("kwargs") or {})
        elif (function := running_in(at.tb_frame)) is not None:
            name, given = function.function.__name__, operands(function.arguments, {})
        if not is_library(code.co_filename):
            users = at
        at = at.tb_next
    tensors = [each for _, each in given if isinstance(each, torch.Tensor)]
    paths = _paths(running)
    names = _names(tensors, users.tb_frame if users else None, running, paths)
    line = users and line_of(users.tb_frame.f_code, users.tb_lasti, users.tb_lineno)
    return FailedCall(
        name,
        tuple(_input(each, names.get(id(each))) for each in tensors),
        line,
        ".".join(filter(None, (type(running[0]).__name__, paths[-1]))) if running else None,
        weakref.ref(running[0]) if running else None,
        traceback.format_exception_only(error)[-1].strip(),
        Stage.FORWARD if stage is Stage.OWN and (name or running) else stage,
    )


def _stage(frame: FrameType) -> Stage | None:
    """Return what begins with a frame, if it is known."""
    if frame.f_code in _BACKWARD:
        return Stage.BACKWARD
    if frame.f_code.co_name == "step":
        is_step = isinstance(frame_locals(frame).get("self"), torch.optim.Optimizer)
        return Stage.STEP if is_step else None
    return None


def _input(tensor: torch.Tensor, name: str | None) -> FailedInput:
    dtype, device = as_text(tensor.dtype), str(tensor.device)
    return make(FailedInput, name, shape_of(tensor), dtype, device, tensor.requires_grad, tensor)


def _paths(running: Sequence[nn.Module]) -> list[str]:
    known = names_of_submodules(running[0]) if running else {}
    inner = (known.get(id(each), [f"({type(each).__name__})"])[0] for each in running[1:])
    return ["", *inner]


def _names(
    tensors: Sequence[torch.Tensor],
    frame: FrameType | None,
    running: Sequence[nn.Module],
    paths: Sequence[str],
) -> dict[int, str]:
    """Name tensors by the parameters of running modules and the variables of a frame."""
    wanted, found = set(map(id, tensors)), {}
    for module, path in zip(running, paths, strict=False):
        for name, parameter in own_parameters(module).items():
            found[id(parameter)] = f"{path}.{name}" if path else name
    for name, value in (caller_variables(frame) if frame is not None else {}).items():
        if id(value) in wanted and not name.startswith("_"):
            found.setdefault(id(value), name)
    return found
