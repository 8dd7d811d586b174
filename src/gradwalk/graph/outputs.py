"""Check the arguments of public functions, and flatten them to outputs of the autograd graph."""

from __future__ import annotations

import re
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import FrameType, GeneratorType
from typing import Any, TypeGuard

import torch
from torch.autograd.graph import GradientEdge, Node
from torch.export import ExportedProgram
from torch.fx import GraphModule

from ..english import list_some, plural
from ..torch_api.fake_tensors import tree_leaves
from ..torch_api.modes import has_tangents, is_transformed, transforms_around
from ..torch_api.nodes import gradient_edge, holder_of, is_gone, op_name
from ..types import Program


def is_program(value: Any) -> TypeGuard[Program]:
    """Whether a value is a static graph: what torch.export or torch.fx.symbolic_trace returned."""
    return isinstance(value, (ExportedProgram, GraphModule))


@dataclass(frozen=True)
class Output:
    """One output of a node, from which a graph is shown."""

    node: Node
    output_nr: int
    key: str | None  # its key in a dict of outputs ("loss", "heads[0]"); None when not in a dict
    tensor: torch.Tensor | None  # the tensor itself, when a tensor was given
    # An object to keep so that torch keeps the node; None where the node is enough.
    holder: Node | None


def read_outputs(given: tuple[Any, ...], caller: str) -> list[Output]:
    """Flatten the arguments of a public function: one output per tensor, edge or node.

    A model may return a dict or a dataclass: its parts without a graph are left out, if another
    part has one.
    """
    found = list(_flatten(given))
    if any(_has_graph(value) for *_, value in found):
        found, left = _with_graph(found)
        _tell(left, caller)
    outputs = [_read_one(*each, caller) for each in found]
    if not outputs:
        raise ValueError(
            f"{_call(caller)} was given no output: there is nothing to show. Pass the tensor "
            f"you would call backward() on, for example {caller.partition('(')[0]}(loss)."
        )
    return outputs


def read_given(given: tuple[Any, ...], caller: str) -> Program | list[Output]:
    """Read one static graph, or outputs as `read_outputs` does."""
    programs = [value for value in given if is_program(value)]
    if not programs:
        return read_outputs(given, caller)
    if len(given) > 1:
        found = plural(len(programs), "static graph is", "static graphs are")
        raise TypeError(
            f"{_call(caller)} was given {len(given)} values, and {found} among them. "
            "It takes one static graph, or the autograd graph of tensors: give each its own "
            "call, or draw them side by side with gradwalk.compare({'dynamic': loss, "
            "'static': program})."
        )
    return programs[0]


def values_in(given: Any) -> list[Any]:
    """Return the values in nested lists, tuples, dicts, dataclasses and registered pytrees."""
    return [value for *_, value in _flatten((given,))]


def _flatten(given: tuple[Any, ...]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield each value that is not a container, and its place: in the call, and by keys."""
    for i, value in enumerate(given, 1):
        yield from _values_in("" if len(given) == 1 else f"argument {i}", None, value)


def _values_in(place: str, key: str | None, value: Any) -> Iterator[tuple[str, str | None, Any]]:
    if isinstance(value, Mapping):
        before = "" if key is None else f"{key}."
        for name, inner in value.items():
            yield from _values_in(f"{place}[{name!r}]", f"{before}{name}", inner)
    elif _is_own(value):
        yield place, key, value
    elif is_dataclass(value) and not isinstance(value, type):
        before = "" if key is None else f"{key}."
        for field in fields(value):
            inner = getattr(value, field.name, None)
            yield from _values_in(f"{place}.{field.name}", f"{before}{field.name}", inner)
    elif (items := _items(value)) is not None:
        for i, inner in enumerate(items):
            yield from _values_in(f"{place}[{i}]", None if key is None else f"{key}[{i}]", inner)
    else:
        yield place, key, value


def _is_own(value: Any) -> bool:
    """Whether a value is one output, or an object of gradwalk."""
    is_output = isinstance(value, (torch.Tensor, GradientEdge, Node))
    return is_output or type(value).__module__.partition(".")[0] == "gradwalk"


def _items(value: Any) -> list[Any] | None:
    """The items of a container, or of a class that is registered as a pytree; None for others."""
    if isinstance(value, (list, tuple, deque, set, frozenset, GeneratorType)):
        return list(value)
    leaves = tree_leaves(value)
    return None if len(leaves) == 1 and leaves[0] is value else leaves


def _has_graph(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    return isinstance(value, (GradientEdge, Node))


_Found = tuple[str, str | None, Any]
_ARGUMENT = re.compile(r"(argument \d+)?")
_NEVER = (type(None), bool, int, float, complex, str, bytes)  # what has a graph in no program


def _with_graph(found: list[_Found]) -> tuple[list[_Found], list[_Found]]:
    """Split values into arguments and parts of them with a graph, and parts without one."""
    left = [each for each in found if not _ARGUMENT.fullmatch(each[0]) and not _has_graph(each[2])]
    parts = {id(each) for each in left}
    return [each for each in found if id(each) not in parts], left


def _kind(value: Any) -> str:
    is_tensor = isinstance(value, torch.Tensor)
    return "a tensor that needs no grad" if is_tensor else type(value).__name__


def _tell(left: list[_Found], caller: str) -> None:
    """Say once for a line of the program what is left out."""
    others = [f"{place} ({_kind(v)})" for place, _, v in left if not isinstance(v, _NEVER)]
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gradwalk."):
        frame = frame.f_back
    if others and frame is not None:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        words = f"{_call(caller)} leaves out {list_some(others)}, without an autograd graph."
        file, line = frame.f_code.co_filename, frame.f_lineno
        warnings.warn_explicit(words, UserWarning, file, line, registry=registry)


def _where(place: str, caller: str) -> str:
    return f"{_call(caller)} was given, as {place}," if place else f"{_call(caller)} was given"


def _call(caller: str) -> str:
    """Return the call for a message: "capture()"; a name with arguments stays as it is."""
    return caller if "(" in caller else f"{caller}()"


def _read_one(place: str, key: str | None, value: Any, caller: str) -> Output:
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            raise ValueError(f"{_where(place, caller)} {_no_grad_sentence(value)}")
        return Output(*gradient_edge(value), key, value, holder_of(value))
    if isinstance(value, (GradientEdge, Node)):
        node, output_nr = (value, 0) if isinstance(value, Node) else (value.node, value.output_nr)
        if is_gone(node):
            raise ValueError(f"{_where(place, caller)} {gone_sentence(node)}")
        return Output(node, output_nr, key, None, getattr(value, "ownership_token", None))
    raise TypeError(f"{_where(place, caller)} {_wrong_kind_sentence(value)}")


def gone_sentence(node: Node) -> str:
    """Return the message about a node that `is_gone`."""
    return (
        f"{op_name(node)}, a node that torch has freed: torch {torch.__version__} keeps the node "
        "of a custom autograd.Function only as long as the tensor that it gave, or what was "
        "computed from that. Keep that tensor in a variable, and pass it."
    )


def _no_grad_sentence(tensor: torch.Tensor) -> str:
    what = (
        f"a tensor of shape {tuple(tensor.shape)} and dtype {tensor.dtype} with requires_grad=False"
    )
    if tensor.is_inference():
        return (
            f"{what}: an inference tensor, made under torch.inference_mode(), which records no "
            "graph. Compute it again outside inference_mode()."
        )
    if is_transformed(tensor):
        around = ", ".join(transforms_around(tensor))
        return (
            f"{what} inside torch.func{around and f' ({around})'}. "
            "Pass the result of the outermost transform, if it requires grad."
        )
    if has_tangents():
        return (
            f"{what} under forward-mode differentiation, which computes tangents and records no "
            "graph. Compute it again outside, from a tensor with requires_grad=True."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return (
            f"{what}: only floating point and complex tensors can have gradients. "
            "Pass the floating point tensor you would call backward() on."
        )
    return (
        f"{what}, so torch recorded no graph behind it. It was computed under torch.no_grad(), was "
        "detached, was computed from integers or plain numbers, or none of the tensors it was "
        "computed from requires grad. Create one of them with requires_grad=True and compute it "
        "again outside torch.no_grad()."
    )


def _wrong_kind_sentence(value: Any) -> str:
    if is_program(value):
        return (
            f"{_with_article(type(value).__name__)}, a static graph, not an autograd graph. "
            "Draw it alone, with gradwalk.GraphWidget(program), beside an autograd graph, with "
            "gradwalk.compare({'dynamic': loss, 'static': program}), or get it as a networkx graph "
            "with gradwalk.capture(program). For gradients run it, and pass what it returns."
        )
    if isinstance(value, torch.nn.Module):
        return (
            f"the module {type(value).__name__}, which has no autograd graph of its own: torch "
            "records one each time the module runs. Pass what it returns, for example the loss."
        )
    if value is None:
        return (
            "None. A tensor that requires grad is needed; does the function that should have "
            "returned it lack a return statement?"
        )
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if kind == "numpy.ndarray":
        return (
            "a numpy.ndarray, which carries no autograd graph. Compute with torch tensors, with "
            "requires_grad=True on what you want gradients of, and pass the resulting tensor."
        )
    if isinstance(value, (bool, int, float, complex)):
        return (
            f"the number {value!r}, which carries no autograd graph. Pass the tensor itself, not "
            "the result of .item() or float()."
        )
    return (
        f"{_with_article(kind)}, which carries no autograd graph. Pass a tensor that requires "
        "grad, a torch.autograd.graph.GradientEdge, an autograd Node, or a list, tuple, dict or "
        "dataclass of these."
    )


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
