"""Read autograd nodes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node, get_gradient_edge

from . import samples
from .capability import aside, capability, is_there
from .modes import unseen
from .signatures import argument_names, signature

_BY_PYTHON: type[Any] = BackwardCFunction
"""The base class of nodes of Python Functions, including torch's own."""

_ACCELERATORS = ("cuda", "mps", "xpu")

UNREAD = "Saved tensors are not read"

Edge = tuple[Node, int]  # a node and the number of one of its outputs


NextFunctions = tuple[tuple[Node | None, int], ...]
"""``Node.next_functions``: per forward input its producer; None if it does not require grad."""


def gradient_edge(tensor: torch.Tensor) -> Edge:
    """Return the node and output that created a tensor, or the AccumulateGrad of a leaf."""
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
    """Whether torch has freed a node that Python still references; it must not be read.

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
    """Return an object to keep so that torch keeps a tensor's node; None where the node is enough.

    Like torch's ``GradientEdge.ownership_token``, it is another node right above, which never runs.
    """
    if not isinstance(tensor.grad_fn, _BY_PYTHON) or _functions_stay():
        return None
    with unseen(), torch.inference_mode(False), torch.enable_grad():
        return _node_above(tensor)


@capability(
    "torch._C._functions.DelayedError",
    otherwise=lambda tensor: get_gradient_edge(tensor).ownership_token,
)
def _node_above(delayed: Any) -> Callable[[torch.Tensor], Node | None]:
    def above(tensor: torch.Tensor) -> Node | None:
        found: torch.Tensor = delayed("", 1)(tensor)
        return found.grad_fn

    if above(samples.product()) is None:
        raise ValueError("torch makes no node.")
    return above


@functools.cache
def _functions_stay() -> bool:
    """Whether this torch keeps the node of a custom Function while Python references it."""
    node = aside(lambda: samples.function_output().grad_fn)
    return node is not None and not is_gone(node)


@dataclass(frozen=True)
class NodeClass:
    """The common properties of all nodes of a class."""

    op: str | None  # the class name, "MulBackward0"; None for C++ functions, which share one class
    is_function: bool  # whether it is the backward of a Python ``autograd.Function``
    arguments: tuple[str, ...]  # its forward arguments, if the same for every node of the class


@functools.cache
def node_class(cls: type) -> NodeClass:
    """Describe a class of autograd nodes."""
    name = cls.__name__
    found = signature(name)
    fixed = found is not None and not any(argument.is_list for argument in found.arguments)
    return NodeClass(
        op=None if name == "CppFunction" else name,
        is_function=issubclass(cls, BackwardCFunction),
        arguments=tuple(a.name for a in found.arguments) if found and fixed else (),
    )


def op_name(node: Node) -> str:
    """Return the class name of a node, "MulBackward0"; for a generic C++ function, its name."""
    return node_class(type(node)).op or node.name()


def is_leaf_class(cls: type) -> bool:
    """Whether nodes of a class accumulate into leaves; a custom Function's ends in "Backward"."""
    return cls.__name__ == "AccumulateGrad"


def is_accumulate_grad(node: object) -> bool:
    """Whether a node accumulates into a leaf."""
    return type(node).__name__ == "AccumulateGrad"


def leaf_classes(nodes: Iterable[Node]) -> set[type]:
    """Return the classes of nodes that are of leaves: to compare classes needs no call."""
    return {cls for cls in set(map(type, nodes)) if is_leaf_class(cls)}


def leaf_tensor(node: Node) -> torch.Tensor | None:
    """Return the leaf of an AccumulateGrad node; None for every other node."""
    return node.variable if is_accumulate_grad(node) else None  # type: ignore[attr-defined]


def at_first_use(node: Any, leaf: torch.Tensor) -> Any:
    """Return an object with a leaf's shape, dtype and device at its AccumulateGrad's creation.

    The leaf itself if they are unchanged or unknown; else torch's metadata. ``half()`` or ``to()``
    of a module, or ``.data = ...``, may have changed it.
    """
    try:
        (noted,) = outputs_metadata(node)
        same = (tuple(noted.shape), noted.dtype, noted.device) == (
            tuple(leaf.shape),
            leaf.dtype,
            leaf.device,
        )
    except Exception:  # a nested tensor has no single shape, a user's class may raise
        return leaf
    return leaf if same else noted


class UnknownOutput(NamedTuple):
    """Stands for the shape, dtype and device of an output that torch does not report."""

    shape: None = None
    dtype: None = None
    device: None = None
    is_nested_tensor: bool = True  # without one shape


@capability(
    "Node._input_metadata",
    otherwise=lambda _: (UnknownOutput(),),
    lost="The shapes of operations are unknown",
)
def outputs_metadata(read: Any) -> Callable[[Node], Sequence[Any]]:
    """Shape, dtype and device of each of a node's outputs, as torch noted them in the forward pass.

    It raises RuntimeError where an output has no single shape, as a nested tensor. It and
    `sequence_nr` run in C, because capturing calls them for every node.
    """
    (noted,) = read(samples.product_node())
    if (tuple(noted.shape), str(noted.device)) != ((2,), "cpu") or noted.dtype is None:
        raise ValueError("torch reports another shape.")
    return cast("Callable[[Node], Sequence[Any]]", read)


@capability(
    "Node._sequence_nr()",
    otherwise=lambda _: -1,
    lost="The order in which operations ran is inferred from the graph",
)
def sequence_nr(read: Any) -> Callable[[Node], int]:
    """The number of a node, in the order in which its thread made nodes; -1 if unknown."""
    if read(samples.product_node()) >= read(samples.product_node()):
        raise ValueError("torch does not number nodes in their order.")
    return cast("Callable[[Node], int]", read)


def custom_function(node: object) -> type[torch.autograd.Function] | None:
    """Return the ``autograd.Function`` of a node; None for a node without one."""
    return _function_of(node) if hasattr(node, "save_for_backward") else None


@capability(
    "Function._forward_cls",
    otherwise=lambda _: None,
    lost="Which custom Function made a node is unknown",
)
def _function_of(read: Any) -> Callable[[object], type[torch.autograd.Function] | None]:
    if read(samples.function_output().grad_fn) is not samples.Same:
        raise ValueError("torch reports another Function.")

    def function_of(node: object) -> type[torch.autograd.Function] | None:
        try:
            found: type[torch.autograd.Function] = read(node)
        except AttributeError:
            return None
        return found

    return function_of


def is_module_hook(function: type[torch.autograd.Function]) -> bool:
    """Whether it is the Function that a module with backward hooks applies to its tensors."""
    return function.__name__ == "BackwardHookFunction" and is_of_torch(function)


def is_of_torch(written: object) -> bool:
    """Whether a class or a function is torch's own."""
    return str(getattr(written, "__module__", None)).partition(".")[0] == "torch"


def input_names(node: Node, following: NextFunctions) -> Sequence[str | None]:
    """Return the forward argument of each of a node's next functions; None where unknown."""
    kind = node_class(type(node))
    if len(kind.arguments) == len(following):
        return kind.arguments
    if kind.is_function and kind.op != COMPILED:  # compiled code has no argument names
        return _function_argument_names(node, [child is not None for child, _ in following])
    named = kind.op is not None and not kind.is_function
    return argument_names(str(kind.op), len(following)) if named else (None,) * len(following)


def input_numbers(node: Any) -> dict[int, int] | None:
    """Map a custom Function's arguments to next functions; None where the counts differ."""
    needed = [place for place, needs in enumerate(node.needs_input_grad) if needs]
    numbers = [nr for nr, (child, _) in enumerate(node.next_functions) if child is not None]
    return dict(zip(needed, numbers, strict=True)) if len(needed) == len(numbers) else None


def _function_argument_names(node: Any, edges: list[bool]) -> list[str | None]:
    """Return names for a custom Function, whose next functions are its tensor arguments only.

    ``needs_input_grad`` covers every argument, tensors or not. Its True entries are exactly the
    next functions that are not None. A None gets a name only if that is certain.
    """
    unknown: list[str | None] = [None] * len(edges)
    forward = custom_function(node)
    if forward is None:
        return unknown
    try:
        parameters = list(inspect.signature(forward.forward).parameters.values())
        needed = list(node.needs_input_grad)
    except (AttributeError, TypeError, ValueError):
        return unknown
    names = _spread(parameters[1:] if takes_context(forward) else parameters, len(needed))
    if len(names) != len(needed) or sum(edges) != sum(needed):
        return unknown
    with_grad = iter([name for name, need in zip(names, needed, strict=True) if need])
    without = [name for name, need in zip(names, needed, strict=True) if not need]
    certain = iter(without if len(without) == edges.count(False) else [])
    return [next(with_grad) if edge else next(certain, None) for edge in edges]


def takes_context(function: type[torch.autograd.Function]) -> bool:
    """Whether the first argument of a Function's ``forward`` is ``ctx``."""
    return function.setup_context is torch.autograd.Function.setup_context


def function_arguments(function: type[torch.autograd.Function]) -> tuple[str, ...]:
    """Return the names of a Function's arguments, as ``apply`` takes them."""
    names = tuple(inspect.signature(function.forward).parameters)
    return names[1:] if takes_context(function) else names


def _spread(parameters: list[inspect.Parameter], count: int) -> list[str]:
    """Return positional parameter names; ``*args`` takes the rest of ``count``."""
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        else:
            names.append(parameter.name)
    return names[:count]


@capability("Node._saved_*", "Node._raw_saved_*", otherwise=lambda _: {}, lost=UNREAD)
def saved_attributes(
    plain: str, packed: str
) -> Callable[[type], Mapping[str, tuple[str, str | None]]]:
    """Return the saved values of a C++ node class, tensors first.

    By name (``self``, ``dim``, ...): the attribute that reads it, which may run an unpack hook, and
    the one that gives it packed, None for a value that is not a tensor.
    """

    @functools.cache
    def attributes(cls: type) -> Mapping[str, tuple[str, str | None]]:
        found = {
            each.removeprefix(plain): (each, packed + each.removeprefix(plain))
            for each in dir(cls)
            if each.startswith(plain)
        }
        tensors = {name: both for name, both in found.items() if hasattr(cls, both[1])}
        plain_values = {name: (own, None) for name, (own, _) in found.items()}
        return {**tensors, **plain_values, **tensors}

    node = samples.product_node()
    kind: Any = type(node)
    found = attributes(kind)
    if found != {each: (plain + each, packed + each) for each in ("self", "other")}:
        raise ValueError("torch saves the operands of a product under other names.")
    for each in found.values():
        is_packed = getattr(node, str(each[1])) is not None
        if not is_packed or not isinstance(getattr(node, each[0]), torch.Tensor):
            raise ValueError("torch does not give the operands of a product.")
    return attributes


@functools.cache
def knows_saved() -> bool:
    """Whether this torch says what C++ nodes save."""
    return is_there(saved_attributes)


def saved_names(cls: type) -> Collection[str]:
    """Return the names of a C++ node class's saved values, tensors first: ``self``, ``dim``, ..."""
    return saved_attributes(cls).keys()


@functools.cache
def saved_tensors(cls: type) -> frozenset[str]:
    """Return the `saved_names` of tensors and lists of tensors."""
    return frozenset(name for name, (_, packed) in saved_attributes(cls).items() if packed)


@functools.cache
def keeps_tensors(cls: type) -> bool:
    """Whether nodes of this class may save tensors."""
    return node_class(cls).is_function or not knows_saved() or bool(saved_tensors(cls))


COMPILED = "CompiledFunctionBackward"  # the class name of ``torch.compile``'s nodes


def compiled_nodes(nodes: Sequence[Node]) -> list[int]:
    """Return the places of the nodes that are programs from ``torch.compile``."""
    # Most graphs have none, and few classes.
    kinds = {kind for kind in set(map(type, nodes)) if kind.__name__ == COMPILED}
    if not kinds:
        return []
    return [i for i, node in enumerate(nodes) if type(node) in kinds and is_compiled(node)]


def is_compiled(node: Node) -> bool:
    """Whether a node is a program from ``torch.compile``."""
    return type(node).__name__ == COMPILED and custom_function(node) is not None


def donates_buffers(node: Any) -> bool:
    """Whether a compiled node overwrites its saved tensors, so that it can run only once.

    Its first backward compiles it in this way, unless it was called with ``retain_graph=True``.
    """
    if type(node).__name__ != COMPILED:
        return False
    forward = custom_function(node)
    donated = getattr(getattr(forward, "metadata", None), "bw_donated_idxs", None)
    return bool(donated) and getattr(forward, "compiled_bw", None) is not None
