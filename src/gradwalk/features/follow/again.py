"""Run a step again under recording, to name the operation where NaN or Inf was born."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn

from ...checks.finding import Finding
from ...sources.diagnose import diagnose
from ...torch_api.dtensors import own_part
from ...torch_api.modes import grad_mode_kept
from ...torch_api.modules import stand_in, uncompiled
from ...torch_api.reading import is_plain, version_of
from ...tracing.source_line import SourceLine
from ...tracing.watch import watch
from .program import Program
from .tape import Backward, Entry, Held, Ref, State, Tape, replaced, tensors_in

Keep = Callable[[Sequence[torch.Tensor], Mapping[str, Any], int | None], None]
"""Is given the outputs of a pass that was run again, names, and the node in question."""


class CannotRunAgainError(Exception):
    """Why a step cannot be run again, as a clause."""


class Birth(NamedTuple):
    """Where NaN or Inf was born: the finding of `diagnose`, in words; and its line and node."""

    sentence: str
    line: str | None = None
    node: int | None = None


@grad_mode_kept
def run_again(tape: Tape, program: Program, keep: Keep | None, *, is_odd: bool = True) -> Birth:
    """Run the passes of a step again until one has NaN or Inf in it, and name its birth.

    Weights, gradients, buffers and random state are as before. ``is_odd``: whether one is expected;
    without, the last pass is kept. Raises CannotRunAgainError with the reason.
    """
    passes = [each for each in tape.passes if not _is_part(each)]
    if not passes:
        raise CannotRunAgainError("no backward pass from a result of a module was seen in it")
    if tape.is_full:
        raise CannotRunAgainError("it called too many functions outside of modules")
    passes.sort(key=lambda each: all(map(_is_finite, each.losses)))  # a loss that is not finite
    found = None
    for each in passes if is_odd else passes[-1:]:
        with _Copies(program, _needed(each)) as copies:
            found = _play(each, copies, program, keep, is_odd)
        if found is not None:
            return found
    if is_odd:
        raise CannotRunAgainError("it was run again, and all its gradients were finite")
    return Birth("")


def _play(
    backward: Backward, copies: _Copies, program: Program, keep: Keep | None, is_odd: bool
) -> Birth | None:
    """Run one pass again, and look at it as at a step that was looked at."""
    made: dict[Entry, list[torch.Tensor]] = {}

    def back(value: Any) -> Any:
        return replaced(value, (Held, Ref), lambda each: _tensor(each, made, copies))

    with _unheard(), torch.enable_grad(), watch():
        for entry in copies.entries:
            made[entry] = _called(entry, back(entry.args), back(entry.kwargs))
        args, kwargs = back(backward.args), back(backward.kwargs)
        outputs = list(tensors_in(args[0] if args else next(iter(kwargs.values()), ())))
        _check_losses(backward, outputs)
        seeds = kwargs.get("gradient", kwargs.get("grad_tensors", kwargs.get("grad_outputs")))
        if backward.is_grad:
            seeds = args[2] if len(args) > 2 else seeds
        elif len(args) > 1:
            seeds = args[1]
        # The saved tensors must live on, for they show NaN that forward made.
        torch.autograd.backward(outputs, seeds, retain_graph=True)
    names = copies.names(program)
    found = _birth(diagnose(*outputs, names=names))
    if keep is not None and (found is not None or not is_odd):
        keep(outputs, names, None if found is None else found.node)
    return found


def _check_losses(backward: Backward, outputs: Sequence[torch.Tensor]) -> None:
    """Raise CannotRunAgainError if the losses are others than in the step itself."""
    own = [each for each in outputs if each.numel() == 1]
    for before, with_graph in zip(backward.losses, own, strict=False):
        now = with_graph.detach()
        if not torch.equal(before, now) and not (before.isnan() & now.isnan()).all():
            raise CannotRunAgainError(
                f"run again, its loss is {float(now):.4g} and not {float(before):.4g}"
            )


def _birth(findings: Iterable[Finding]) -> Birth | None:
    found = next((each for each in findings if each.kind == "nan"), None)
    if found is None or found.severity == "info":
        return None
    return Birth(found.message, found.line, found.nodes[0] if found.nodes else None)


def _is_finite(loss: torch.Tensor) -> bool:
    return math.isfinite(float(loss))


def _is_part(backward: Backward) -> bool:
    """Whether a pass gave gradients that a later loss is computed from."""
    return bool(backward.kwargs.get("create_graph"))


def _needed(backward: Backward) -> list[Entry]:
    """Return the entries that a pass depends on, in the order of their calls."""
    found: dict[Entry, None] = {}
    waiting: list[Any] = [backward]
    while waiting:
        at = waiting.pop()

        def note(each: Held | Ref, waiting: list[Any] = waiting) -> Any:
            if isinstance(each, Ref) and each.entry not in found:
                found[each.entry] = None
                waiting.append(each.entry)
            return each

        replaced((at.args, at.kwargs), (Held, Ref), note)
    if not found:
        raise CannotRunAgainError("its loss was not made by a module or a function that was seen")
    return sorted(found, key=lambda entry: entry.number)


def _tensor(
    each: Held | Ref, made: Mapping[Entry, Sequence[torch.Tensor]], copies: _Copies
) -> torch.Tensor:
    """Return the tensor to use for one of the step."""
    if isinstance(each, Ref):
        return made[each.entry][each.place]
    tensor = each.tensor
    if version_of(tensor) != each.version:
        raise CannotRunAgainError(
            f"a tensor {tuple(tensor.shape)} that it used was changed in place since"
        )
    if tensor.requires_grad and not tensor.is_leaf:
        raise CannotRunAgainError(
            f"it used a tensor {tuple(tensor.shape)} that {type(tensor.grad_fn).__name__} made, "
            "outside of the modules and functions that were seen"
        )
    return copies.leaf(tensor)


def _called(entry: Entry, args: Any, kwargs: Any) -> list[torch.Tensor]:
    with ExitStack() as stack:
        entry.state.set_random()
        for kind, dtype in entry.state.autocast:
            stack.enter_context(torch.autocast(kind, dtype, cache_enabled=False))
        function = entry.function
        if isinstance(function, nn.Module):
            function = uncompiled(function)
        result = _at(entry.where)(function, args, kwargs)
        return list(tensors_in(args[0] if result is None else result))  # None: __setitem__


def _at(line: SourceLine | None) -> Callable[..., Any]:
    """Return a function that calls another one as if it stood on a line of the program."""
    tree = ast.parse("lambda f, args, kwargs: f(*args, **kwargs)", mode="eval")
    if line is None or not line.line:
        return _plain_call
    text = linecache.getline(line.file, line.line)
    indentation = len(text) - len(text.lstrip())
    start, end = line.span or (0, len(line.text.encode()))
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.arg)):
            node.lineno = node.end_lineno = line.line
            node.col_offset, node.end_col_offset = indentation + start, indentation + end
    code = compile(tree, line.file, "eval")
    inner = next(each for each in code.co_consts if isinstance(each, CodeType))
    return FunctionType(inner.replace(co_name=line.function), {"__name__": "__main__"})


def _plain_call(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


class _Copies:
    """Stands in for parameters and buffers, so that neither changes; put back at the end."""

    def __init__(self, program: Program, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self._models = list(program.models.values())
        called = [e.function for e in entries if isinstance(e.function, nn.Module)]
        tops = [*self._models, *called]
        self._modules = {id(each): each for top in tops for each in top.modules()}.values()
        self._leaves: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._undo: list[Callable[[], None]] = []
        self._random: Any = None

    def __enter__(self) -> _Copies:
        self._random = State.now(), random.getstate(), _numpy_state()
        try:
            for module in self._modules:
                self._set_aside(module)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()
        state, own, numbers = self._random
        state.set_random()
        random.setstate(own)
        if numbers is not None:
            sys.modules["numpy"].random.set_state(numbers)

    def leaf(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a leaf that shares a leaf's numbers, and has a gradient of its own."""
        if not tensor.requires_grad:
            return tensor
        found = self._leaves.get(id(tensor))
        if found is None:
            if own_part(tensor) is not None:
                raise CannotRunAgainError("its parameters are sharded over processes")
            if not is_plain(tensor) or type(tensor) not in (torch.Tensor, nn.Parameter):
                raise CannotRunAgainError(f"a parameter is a {type(tensor).__name__}")
            copy = tensor.detach()
            is_parameter = isinstance(tensor, nn.Parameter)
            copy = nn.Parameter(copy) if is_parameter else copy.requires_grad_()
            found = self._leaves[id(tensor)] = tensor, copy
        return found[1]

    def names(self, program: Program) -> dict[str, Any]:
        """Name the models, which hold the copies now, and the leaves outside of them."""
        found: dict[str, Any] = {p.rstrip("."): model for p, model in program.models.items()}
        for tensor, copy in self._leaves.values():
            part = program.parts.get(id(tensor))
            if part is not None and part.module is None:
                found[part.name] = copy
        return found

    def _set_aside(self, module: nn.Module) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            raise CannotRunAgainError("it runs a module of TorchScript")
        self._undo.append(stand_in(module, self.leaf, lambda buffer: buffer.detach().clone()))


def _numpy_state() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random.get_state()


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep what the program prints to itself, as it has printed it before."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
