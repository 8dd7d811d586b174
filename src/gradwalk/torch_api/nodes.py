"""What gradwalk reads off an autograd ``Node``, by torch's private names where it must."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any

import torch
from torch.autograd.graph import Node, get_gradient_edge

from .modes import unseen
from .signatures import argument_names, signature

AccumulateGrad: type = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
"""The class of the nodes that stand for leaf tensors."""

ModuleHook: type[torch.autograd.Function] = torch.nn.modules._functions.BackwardHookFunction
"""What a module with backward hooks puts around its inputs and outputs, which calls them."""

_BY_PYTHON: type[Any] = torch._C._FunctionBase
"""What the nodes of custom Functions are, torch's own ones included."""

_ACCELERATORS = ("cuda", "mps", "xpu")

Edge = tuple[Node, int]
"""A place in the graph: a node and which of its outputs."""


NextFunctions = tuple[tuple[Node | None, int], ...]
"""What ``Node.next_functions`` gives: per forward input, who made it; None if it needs no grad."""


def gradient_edge(tensor: torch.Tensor) -> Edge:
    """The node that made a tensor, or that accumulates into it when it is a leaf.

    Args:
        tensor: A tensor that requires grad.

    Returns:
        The node and which of its outputs the tensor is.

    Raises:
        RuntimeError: It is a fake leaf on a device that this torch was built without.
    """
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    kind = tensor.device.type
    if kind in _ACCELERATORS and kind not in str(torch.accelerator.current_accelerator()):
        raise RuntimeError(
            f"A leaf of this graph is a fake tensor on {kind}, and this torch was built without "
            f"{kind}: it ends the process when it makes a node for the leaf. Make the fake tensors "
            "on the CPU."
        )
    with torch.inference_mode(False):  # torch finds the node through a view, which needs a graph
        return get_gradient_edge(tensor).node, 0


def is_gone(node: Node) -> bool:
    """Whether torch has freed a node that Python still has, which must not be read then.

    torch up to 2.12 frees the node of a custom Function along with the output tensor, unless a
    result computed from that output is alive.
    """
    if not isinstance(node, _BY_PYTHON):
        return False
    try:
        node.next_functions  # noqa: B018  asked for the error
    except RuntimeError:
        return True
    return False


def holder_of(tensor: torch.Tensor) -> Node | None:
    """What to keep so that the node of a tensor stays, where it is not enough to keep the node.

    It is another node right above, as torch's own ``GradientEdge.ownership_token``: one that torch
    can make for tensors of every kind, and that never runs.
    """
    if not isinstance(tensor.grad_fn, _BY_PYTHON) or _functions_stay():
        return None
    with unseen(), torch.inference_mode(False), torch.enable_grad():
        above: torch.Tensor = torch._C._functions.DelayedError("", 1)(tensor)
    return above.grad_fn


@functools.cache
def _functions_stay() -> bool:
    """Whether this torch keeps the node of a custom Function for as long as Python has it."""
    with unseen(), torch.inference_mode(False), torch.enable_grad():
        given: torch.Tensor = _Same.apply(torch.zeros((), device="cpu", requires_grad=True))  # type: ignore[no-untyped-call]
    node = given.grad_fn
    del given
    return node is not None and not is_gone(node)


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


@dataclass(frozen=True)
class NodeClass:
    """What all nodes of one class have in common.

    Attributes:
        op: The class name, "MulBackward0"; None for C++ functions, which share one class.
        is_function: Whether it is the backward of a Python ``autograd.Function``.
        arguments: Its forward arguments, where every node of the class has the same ones.
    """

    op: str | None
    is_function: bool
    arguments: tuple[str, ...]


@functools.cache
def node_class(cls: type) -> NodeClass:
    """Describe a class of autograd nodes."""
    name = cls.__name__
    found = signature(name)
    fixed = found is not None and not any(argument.is_list for argument in found.arguments)
    return NodeClass(
        op=None if name == "CppFunction" else name,
        is_function=issubclass(cls, torch.autograd.function.BackwardCFunction),
        arguments=tuple(a.name for a in found.arguments) if found and fixed else (),
    )


def op_name(node: Node) -> str:
    """The class name of a node, "MulBackward0"; of a nameless C++ function, its own word."""
    return node_class(type(node)).op or node.name()


def leaf_tensor(node: Node) -> torch.Tensor | None:
    """The tensor an AccumulateGrad node accumulates into; None for every other node."""
    return node.variable if type(node) is AccumulateGrad else None  # type: ignore[attr-defined]


def as_taken(node: Any, leaf: torch.Tensor) -> Any:
    """What has the shape, dtype and device that a leaf had when its AccumulateGrad node was made.

    Args:
        node: The node.
        leaf: Its leaf, which another tensor may have been put in the place of since: by ``half()``
            or ``to()`` of a module, or by ``.data = ...``.

    Returns:
        The leaf where they are what they were, or are not known; else what torch noted.
    """
    try:
        (noted,) = outputs_metadata(node)
        same = (tuple(noted.shape), noted.dtype, noted.device) == (
            tuple(leaf.shape),
            leaf.dtype,
            leaf.device,
        )
    except Exception:  # a nested tensor has no one shape, a class of the user's may refuse
        return leaf
    return leaf if same else noted


outputs_metadata: Callable[[Node], Sequence[Any]] = attrgetter("_input_metadata")
"""Shape, dtype and device of each of a node's outputs, as torch noted them in the forward pass.

It raises RuntimeError where an output has no single shape, as a nested tensor. It and `sequence_nr`
run in C, because capturing calls them for every node.
"""

sequence_nr: Callable[[Node], int] = methodcaller("_sequence_nr")
"""The number of a node, in the order in which its thread made nodes."""


def custom_function(node: Node) -> type[torch.autograd.Function] | None:
    """The ``autograd.Function`` whose backward a node is; None for every other node."""
    found: type[torch.autograd.Function] | None = getattr(node, "_forward_cls", None)
    return found


def is_of_torch(written: object) -> bool:
    """Whether a class or a function belongs to torch rather than to whoever uses it."""
    return str(getattr(written, "__module__", None)).partition(".")[0] == "torch"


def arguments_of(node: Node, following: NextFunctions) -> Sequence[str | None]:
    """As `input_names`; of most classes all nodes have the same ones."""
    found = node_class(type(node)).arguments
    return found if len(found) == len(following) else input_names(node, following)


def input_names(node: Node, following: NextFunctions) -> Sequence[str | None]:
    """The forward argument behind each of a node's next functions; None where unknown."""
    kind = node_class(type(node))
    if kind.is_function and kind.op != COMPILED:  # whose arguments are torch's own, without names
        return _function_argument_names(node, [child is not None for child, _ in following])
    named = kind.op is not None and not kind.is_function
    return argument_names(str(kind.op), len(following)) if named else (None,) * len(following)


def input_numbers(node: Any) -> dict[int, int] | None:
    """Place of an argument of a custom Function -> which of the node's next functions it is.

    Next functions are those of tensors, arguments may be anything; those that need a gradient
    stand in the same order in both. None where they do not.
    """
    needed = [place for place, needs in enumerate(node.needs_input_grad) if needs]
    numbers = [nr for nr, (child, _) in enumerate(node.next_functions) if child is not None]
    return dict(zip(needed, numbers, strict=True)) if len(needed) == len(numbers) else None


def _function_argument_names(node: Any, edges: list[bool]) -> list[str | None]:
    """Names for a custom Function, whose next functions are its tensor arguments only.

    ``needs_input_grad`` covers every argument, tensors or not. Its True entries are exactly the
    next functions that are not None; a None is named only when it can be no other argument.
    """
    unknown: list[str | None] = [None] * len(edges)
    forward = node._forward_cls
    try:
        parameters = list(inspect.signature(forward.forward).parameters.values())
        needed = list(node.needs_input_grad)
    except (AttributeError, TypeError, ValueError):
        return unknown
    with_context = forward.setup_context is torch.autograd.Function.setup_context
    names = _spread(parameters[1:] if with_context else parameters, len(needed))
    if len(names) != len(needed) or sum(edges) != sum(needed):
        return unknown
    with_grad = iter([name for name, need in zip(names, needed, strict=True) if need])
    without = [name for name, need in zip(names, needed, strict=True) if not need]
    certain = iter(without if len(without) == edges.count(False) else [])
    return [next(with_grad) if edge else next(certain, None) for edge in edges]


def _spread(parameters: list[inspect.Parameter], count: int) -> list[str]:
    """Positional parameter names, a ``*args`` spread over what is left of ``count``."""
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        else:
            names.append(parameter.name)
    return names[:count]


@functools.cache
def saved_names(cls: type) -> tuple[str, ...]:
    """What a C++ node class keeps for backward, tensors first: ``self``, ``other``, ``dim``, ..."""
    names = [a.removeprefix("_saved_") for a in dir(cls) if a.startswith("_saved_")]
    return tuple(sorted(names, key=lambda name: not hasattr(cls, f"_raw_saved_{name}")))


@functools.cache
def saved_tensors(cls: type) -> frozenset[str]:
    """Those of `saved_names` that are tensors or lists of them."""
    return frozenset(name for name in saved_names(cls) if hasattr(cls, f"_raw_saved_{name}"))


@functools.cache
def keeps_tensors(cls: type) -> bool:
    """Whether nodes of this class may keep tensors, not only plain values, for backward."""
    return any(a.startswith("_raw_saved_") for a in dir(cls))


COMPILED = "CompiledFunctionBackward"
"""The name of the class of nodes that ``torch.compile`` makes."""


def donates_buffers(node: Any) -> bool:
    """Whether a node is compiled code that overwrites what it saved, so it can run only once.

    It is compiled so by its first backward, unless that one was asked to retain the graph.
    """
    if type(node).__name__ != COMPILED:
        return False
    forward = node._forward_cls
    donated = getattr(getattr(forward, "metadata", None), "bw_donated_idxs", None)
    return bool(donated) and getattr(forward, "compiled_bw", None) is not None
