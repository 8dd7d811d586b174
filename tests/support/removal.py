"""Six programs with a private name of torch gone: a process of its own runs `without` once."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

Tensors = dict[str, torch.Tensor]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.scale * 3 * x**2, None


def _net(*sizes: int) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(layers[0], nn.Tanh(), *layers[1:])


def mlp() -> tuple[torch.Tensor, Tensors]:
    net = _net(2, 3, 1)
    return F.mse_loss(net(torch.ones(4, 2)), torch.zeros(4, 1)), dict(net.named_parameters())


def custom_function() -> tuple[torch.Tensor, Tensors]:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    return (Cube.apply(x, 2.0) * x).sum(), {"x": x}


runs = 0


def checkpointed() -> tuple[torch.Tensor, Tensors]:
    net = _net(2, 2, 2)

    def counted(x: torch.Tensor) -> torch.Tensor:
        global runs  # noqa: PLW0603
        runs += 1
        return net(x)

    hidden = checkpoint(counted, torch.ones(1, 2), use_reentrant=False)
    return (hidden * hidden).sum(), dict(net.named_parameters())


def cut() -> tuple[torch.Tensor, Tensors]:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([0.5], requires_grad=True)
    y = w * torch.tensor([3.0, 4.0]) + b
    return (y.detach() * w).sum(), {"w": w, "b": b}


def in_place() -> tuple[torch.Tensor, Tensors]:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    y[0] = 5.0
    first, rest = y.split([1, 2])
    return (y.view(3, 1).exp().sum() + rest.sum()) * first.sum(), {"x": x}


def double_backward() -> tuple[torch.Tensor, Tensors]:
    net = _net(2, 1)
    (grad,) = torch.autograd.grad(net(torch.ones(1, 2)).sum(), net[0].weight, create_graph=True)
    return (grad**2).sum() + net[0].bias.sum(), dict(net.named_parameters())


PROGRAMS: dict[str, tuple[Callable[[], tuple[torch.Tensor, Tensors]], bool]] = {
    "mlp": (mlp, False),
    "custom function": (custom_function, True),
    "checkpointed": (checkpointed, True),
    "cut": (cut, True),
    "in place": (in_place, True),
    "double backward": (double_backward, True),
}
"""By name: a program, and whether it runs under ``watch()``."""

ONLY_HIDDEN = {"Module", "OpOverload", "RNNBase"}
"""The owners of attributes that each object has for itself."""

ELSEWHERE = {
    "CompiledFunction",
    "DTensor",
    "DistributedDataParallel",
    "FSDPModule",
    "FSDPParam",
    "FSDPParamGroup",
    "FSDPState",
    "LocalTensor",
    "SummaryWriter",
    "tensor_api",
}
"""The owners of attributes that the programs do not come to."""


def plain() -> dict[str, list[list[float]]]:
    """Run the programs without gradwalk; returns each gradient."""
    found = {}
    for name, (program, _) in PROGRAMS.items():
        loss, tensors = program()
        loss.backward()
        found[name] = [_numbers(each.grad) for each in tensors.values()]
    return found


EXPECTED: dict[str, list[list[float]]] = {}
"""The gradients of the programs, filled in before a name is taken."""


def prepare() -> None:
    """Run all that torch does once only: several processes then begin from here."""
    EXPECTED.update(plain())
    torch.overrides.resolve_name(torch.add)
    torch.overrides.get_testing_overrides()
    assert "gradwalk" not in sys.modules


def _numbers(grad: torch.Tensor | None) -> list[float]:
    return [] if grad is None else grad.flatten().tolist()


def _node_classes() -> list[type]:
    found = {torch.autograd.function.BackwardCFunction}
    for program, _ in PROGRAMS.values():
        waiting: list[Any] = [program()[0].grad_fn]
        for node in waiting:
            found.add(type(node))
            waiting += [child for child, _ in node.next_functions if child is not None]
    listed = vars(torch._C._functions).values()
    found.update(each for each in listed if isinstance(each, type))
    return [kind for each in found for kind in each.__mro__]


def _owners(name: str) -> list[Any]:
    """What has an attribute of torch's objects in its dict."""
    owner = name.partition(".")[0]
    if owner in ONLY_HIDDEN | ELSEWHERE:
        return []
    return {
        "Function": lambda: [
            *torch.autograd.function.BackwardCFunction.__subclasses__(),
            *torch.autograd.function.BackwardCFunction.__mro__,
        ],
        "Node": _node_classes,
        "SavedTensor": lambda: [torch._C._autograd.SavedTensor],
        "Tensor": lambda: [*torch.Tensor.__mro__],
        "UntypedStorage": lambda: [*torch.UntypedStorage.__mro__],
        "forward_ad": lambda: [forward_ad],
        "torch_module": lambda: [torch],
    }[owner]()


def _places(name: str) -> Iterator[tuple[Any, str]]:
    """Yield where a name is: what has it, and its attribute there."""
    owner, _, path = name.partition(".")
    if owner == "torch":
        *before, last = name.split(".")
        with contextlib.suppress(ImportError, AttributeError):
            place = _find(before)
            place = place if hasattr(place, "__dict__") else type(place)
            has_it = (each for each in getattr(place, "__mro__", [place]) if last in vars(each))
            yield from ((each, last) for each in has_it)
        return
    attribute = path.rstrip("()*")
    for each in dict.fromkeys(_owners(name)):
        for found in list(vars(each)):
            if found == attribute or (path.endswith("*") and found.startswith(attribute)):
                yield each, found


def _find(parts: list[str]) -> Any:
    found, at = importlib.import_module("torch"), "torch"
    for part in parts[1:]:
        at += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(at)
    return found


def _raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("This private name works no longer.")


class _Raising:
    """An attribute that raises when it is read, also of the class."""

    def __get__(self, *_: Any) -> Any:
        _raises()

    def __set__(self, *_: Any) -> None:
        _raises()


def _change(owner: Any, attribute: str, value: Any, *, is_gone: bool) -> None:
    if not isinstance(owner, type):
        if is_gone:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, value)
        return
    (space,) = (each for each in gc.get_referents(owner.__dict__) if type(each) is dict)
    if is_gone:
        del space[attribute]
    else:
        space[attribute] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _take(name: str, how: str) -> Callable[[], None]:
    """Take a name from torch; returns what puts it back."""
    before = []
    for owner, attribute in list(_places(name)):
        old = vars(owner)[attribute]
        before.append((owner, attribute, old))
        is_read = isinstance(owner, type) and not callable(old)
        value = _Raising() if is_read else _raises
        _change(owner, attribute, value, is_gone=how == "gone")

    def put_back() -> None:
        for owner, attribute, old in before:
            _change(owner, attribute, old, is_gone=False)

    return put_back if before else lambda: None


def _hide(name: str, how: str) -> None:
    """Hide a name from gradwalk alone, which finds each in one place."""
    from gradwalk.torch_api import capability  # noqa: PLC0415

    find = capability.find

    def found(asked: str) -> Any:
        if asked != name:
            return find(asked)
        if how == "gone":
            raise AttributeError(f"torch has no {name}")
        return "_gone_" if name.endswith("*") else _raises

    capability.find = found


def _works_without(name: str, how: str) -> bool:
    """Take a name from torch; if torch cannot run the programs then, put it back."""
    if not any(True for _ in _places(name)):
        return False
    put_back = _take(name, how)
    try:
        if plain() == EXPECTED:
            return True
    except Exception:  # torch needs it itself
        pass
    put_back()
    assert plain() == EXPECTED
    return False


def _look(name: str, fault: str | None) -> list[str]:
    """Do with a program what a user does; returns the sentences about what is lost.

    ``fault``: the start of the error that the widget shows.
    """
    from gradwalk import GraphWidget, diagnose, explain_grad, load, save, watch  # noqa: PLC0415
    from gradwalk.torch_api.capability import lost_sentences  # noqa: PLC0415

    program, is_watched = PROGRAMS[name]
    expected = EXPECTED[name]
    with watch() if is_watched else contextlib.nullcontext():
        loss, tensors = program()
    before = runs
    widget = GraphWidget(loss, names=tensors)
    nodes = widget.to_networkx().number_of_nodes()

    def click() -> None:
        for node in range(nodes):
            widget.selected = node
            details = widget._trait_values["details"]  # as it was sent
            assert details is not None, node
            assert not details["failed"], details["failed"]

    assert widget.model["nodes"]
    click()
    said = [str(explain_grad(each, widget)) for each in tensors.values()]
    assert runs == before, "looking ran a part of the program again"
    assert all(each.grad is None for each in tensors.values())
    for _ in range(3):
        widget.step()
    widget.step_back()
    widget.step(999)
    click()
    assert [_numbers(each.grad) for each in tensors.values()] == expected, "other gradients"
    said += [str(explain_grad(each, widget)) for each in tensors.values()]
    said += [str(explain_grad(each, loss)) for each in tensors.values()]
    found = [*widget.diagnose(), *diagnose(loss, names=tensors)]
    sentences = lost_sentences()
    failed = {each.message for each in found if each.kind == "failed"}
    assert failed == set(sentences), failed
    assert widget._fault is None or (fault and widget._fault.startswith(fault)), widget._fault
    with tempfile.TemporaryDirectory() as folder:
        opened = load(save(widget, path=Path(folder) / "run.gw"))
        opened.selected = 0
        assert opened.details is not None
        opened.close()
    note = widget.state["note"]
    assert all(each in note for each in sentences), note
    assert all(each and "cannot be shown" not in each for each in said), said
    widget.reset()
    widget.close()
    return sentences


def without(name: str, how: str) -> None:
    """Run the programs without a name; how: "gone", "raises" or "there". Prints what is lost."""
    is_taken = how != "there" and _works_without(name, how)
    if how != "there" and not is_taken:
        _hide(name, how)
    # Whether this one works is known only within a pass, which then goes on unrecorded: torch's
    # public function, which gradwalk prefers, calls it.
    fault = "Watching node" if name.endswith(".queue_callback") else None
    sentences = list[str]()
    for program in PROGRAMS:
        print(program, file=sys.stderr)  # shown if it fails
        sentences = _look(program, fault)
    print(json.dumps(sentences))
