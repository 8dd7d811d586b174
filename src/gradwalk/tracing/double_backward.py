"""Find which tensors are derivatives of which, from calls that `watch` saw.

The result of ``torch.autograd.grad(y, x, create_graph=True)`` has its own graph, which does not
show that it is the derivative of ``y``. So the nodes of both get a mark with the call. A mark lives
as long as its node, and holds tensors by weak references only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch

from ..graph.capture import Capture
from ..graph.names import Names
from ..torch_api.modes import layers
from ..torch_api.nodes import op_name, sequence_nr
from ..torch_api.reading import shape_of
from .module_path import TensorRef
from .source_line import SourceLine

_WORDS = {
    torch.autograd.grad: ("torch.autograd.grad", "grad_outputs"),
    torch.autograd.backward: ("torch.autograd.backward", "grad_tensors"),
    torch.Tensor.backward: ("backward(create_graph=True)", "gradient"),
}
_MARK = "gradwalk derivative"
_COPIES = frozenset({"CopyBackwards", "CloneBackward0"})
_MOST_TOUCHED = 1024  # living nodes: deep chains of nodes that Python touched crash when freed
_MOST_OUTPUTS = 8  # of one call that are recorded one by one


class _TensorInfo(NamedTuple):
    tensor: TensorRef
    shape: tuple[int, ...]


@dataclass(eq=False)
class _Differentiation:
    """A call that computed derivatives with a graph."""

    all_touched: ClassVar[int] = 0  # how many living nodes were read for any call

    called: str  # its name in the program
    weights: str | None  # its keyword for the gradient of the outputs; None if it got none
    where: SourceLine | None
    of: tuple[_TensorInfo, ...]  # the first differentiated outputs; their derivatives are summed
    further: int  # the number of further outputs
    by: tuple[_TensorInfo, ...]  # the tensors with respect to which it differentiated
    numbers: set[int]  # torch's numbers of the marked nodes
    made: range  # torch's numbers of the nodes made meanwhile
    touched: int = 0  # how many nodes were read for it

    def __del__(self) -> None:
        if self.numbers:  # the last of its nodes has been freed
            _Differentiation.all_touched -= self.touched

    def node_of(self, tensor: torch.Tensor) -> Any:
        """Return the node that made a tensor; None if there is none or no more may be touched."""
        if tensor.is_leaf or _Differentiation.all_touched >= _MOST_TOUCHED:
            return None
        _Differentiation.all_touched += 1
        self.touched += 1
        return tensor.grad_fn


class _Mark(NamedTuple):
    """How a node takes part in a call that computed derivatives."""

    call: _Differentiation
    is_given: bool  # whether the node made a result of the call, rather than an argument
    place: int  # the index in ``call.by`` for a result, in ``call.of`` for an argument
    output_nr: int


_known: weakref.WeakSet[_Differentiation] = weakref.WeakSet()


def differentiates(function: Any) -> bool:
    """Return whether a function computes derivatives."""
    return function in _WORDS


class DerivativeCall(NamedTuple):
    """A call that computed derivatives."""

    function: Any
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    result: Any
    numbers: tuple[int, int]  # the number of the next autograd node, before the call and after it


def gives_constants(call: DerivativeCall) -> bool:
    """Return whether a call gave derivatives without a graph."""
    asked = call.keywords.get("create_graph", call.arguments[4] if call.arguments[4:] else False)
    return call.function is torch.autograd.grad and not asked


def note_derivatives(
    seen: DerivativeCall,
    where: SourceLine | None,
    reference: Callable[[torch.Tensor], TensorRef],
    leaves_below: Callable[[torch.Tensor], Iterable[TensorRef]],
) -> None:
    """Record the derivatives that a call gave, if they have a graph."""
    word: str | None
    called, word = _WORDS[seen.function]
    outputs = _tensors(seen.arguments[0])
    weights = _tensors(seen.keywords.get(word))

    def recorded(tensors: Iterable[torch.Tensor]) -> tuple[_TensorInfo, ...]:
        return tuple(_TensorInfo(reference(each), shape_of(each)) for each in tensors)

    first = outputs[:_MOST_OUTPUTS]
    more = len(outputs) - len(first)
    word = word if weights else None
    call = _Differentiation(
        called, word, where, recorded(first), more, (), set(), range(*seen.numbers)
    )
    given = [
        (by, grad)
        for by, grad in _derivatives_of(seen, outputs, leaves_below, call)
        if grad.requires_grad
    ]
    call.by = recorded(by for by, _ in given)
    # The gradients passed to the call existed before it.
    before = [call.node_of(each) for each in weights] if given else []
    for i, (_, grad) in enumerate(given):
        for layer, node in _nodes(grad, call):
            # Other devices number their nodes in threads of their own.
            is_new = layer.device.type != "cpu" or sequence_nr(node) in call.made
            if is_new and not any(node is one for one in before):
                _mark(node, _Mark(call, True, i, layer.output_nr))
    if not call.numbers:
        return
    for i, output in enumerate(first):
        for layer, node in _nodes(output, call):
            _mark(node, _Mark(call, False, i, layer.output_nr))
    _known.add(call)


def _derivatives_of(
    seen: DerivativeCall,
    outputs: list[torch.Tensor],
    leaves_below: Callable[[torch.Tensor], Iterable[TensorRef]],
    call: _Differentiation,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield each tensor that a call differentiated with respect to, and its derivative."""
    if seen.function is torch.autograd.grad:
        for by, grad in zip(seen.arguments[1], seen.result, strict=True):
            if isinstance(by, torch.Tensor) and isinstance(grad, torch.Tensor):
                yield by, grad
        return
    chosen = seen.keywords.get("inputs")
    leaves: Iterable[torch.Tensor | None] = _tensors(chosen)
    if chosen is None:
        leaves = [ref() for ref in dict.fromkeys(r for each in outputs for r in leaves_below(each))]
    for leaf in leaves:
        grad = None if leaf is None else leaf.grad
        # A first gradient that has a graph is copied into `.grad`, a later one is added.
        if leaf is not None and grad is not None:
            node = call.node_of(grad)
            if node is not None and op_name(node) in _COPIES:
                yield leaf, grad


def _nodes(tensor: torch.Tensor, call: _Differentiation) -> Iterator[tuple[torch.Tensor, Any]]:
    """Yield a tensor and the tensors that ``torch.func`` wraps in it, each with its node."""
    for layer in layers(tensor):
        node = call.node_of(layer)
        if node is not None:
            yield layer, node


def _mark(node: Any, mark: _Mark) -> None:
    mark.call.numbers.add(sequence_nr(node))
    node.metadata.setdefault(_MARK, []).append(mark)


def _tensors(given: Any) -> list[torch.Tensor]:
    each = given if isinstance(given, (list, tuple)) else (given,)
    return [one for one in each if isinstance(one, torch.Tensor)]


@dataclass(frozen=True)
class Derivative:
    """An output of a node that was computed as a derivative."""

    node: int  # the node that made it
    words: str  # its name for the user
    output_nr: int
    of: tuple[int, ...]  # the nodes in the graph that made the differentiated outputs
    of_words: tuple[str, ...]  # the names of those outputs
    by_words: str  # the name of the tensor with respect to which it is the derivative
    called: str  # the call that computed it
    weights: str | None  # the call's keyword for the gradient of the outputs; None if it got none
    where: SourceLine | None
    below: frozenset[int]  # the nodes that backward made for it, itself included


def pairs(derivatives: Iterable[Derivative]) -> Iterator[tuple[int, int]]:
    """Yield each node that gave a derivative with each node that made the differentiated output."""
    return ((found.node, of) for found in derivatives for of in found.of)


def has_derivatives() -> bool:
    """Whether `watch` saw a derivative of which a node lives."""
    return any(call.numbers for call in list(_known))


def derivatives_in(captured: Capture, names: Names) -> list[Derivative]:
    """Return the outputs of a graph that `watch` saw computed as derivatives."""
    numbers = {number for call in list(_known) for number in call.numbers}
    marked: list[tuple[int, _Mark]] = []
    for node, data in captured.attributes.items():
        if data["kind"] == "op" and data["sequence_nr"] in numbers:
            behind: Any = captured.nodes[node]
            marked += [(node, mark) for mark in behind.metadata.get(_MARK, ())]
    sources = {
        (id(mark.call), mark.place): (node, mark.output_nr)
        for node, mark in marked
        if not mark.is_given
    }

    def in_words(node: int, output_nr: int) -> str:
        data = captured.attributes[node]
        outputs = data["outputs"]
        name = outputs[output_nr]["name"] if output_nr < len(outputs) else None
        return f"{name or data['op']} (node {node})"

    def words(recorded: _TensorInfo, place: tuple[int, int] | None = None) -> str:
        if place is not None:
            return in_words(*place)
        tensor = recorded.tensor()
        name = names.name_of(tensor) if tensor is not None else None
        return name or f"a tensor of shape {recorded.shape} that has no name here"

    found: list[Derivative] = []
    for node, mark in marked:
        if not mark.is_given:
            continue
        call = mark.call
        of = [sources.get((id(call), i)) for i in range(len(call.of))]
        of_words = [words(recorded, at) for recorded, at in zip(call.of, of, strict=True)]
        if call.further:
            of_words.append(f"{call.further} more")
        found.append(
            Derivative(
                node=node,
                words=in_words(node, mark.output_nr),
                output_nr=mark.output_nr,
                of=tuple(dict.fromkeys(at[0] for at in of if at is not None and at[0] != node)),
                of_words=tuple(of_words),
                by_words=words(call.by[mark.place]),
                called=call.called,
                weights=call.weights,
                where=call.where,
                below=_made_by(call, captured, node),
            )
        )
    return found


def _made_by(call: _Differentiation, captured: Capture, node: int) -> frozenset[int]:
    """Return a node and those below it that were made during a call."""
    found, waiting = {node}, [node]
    while waiting:
        for each in captured.successors[waiting.pop()]:
            data = captured.attributes[each]
            if each not in found and data["kind"] == "op" and data["sequence_nr"] in call.made:
                found.add(each)
                waiting.append(each)
    return frozenset(found)
