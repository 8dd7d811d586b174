"""Compute the gradients of one graph, with and without changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ...backward.recorded_run import RecordedRun
from ...backward.run_backward import starting_gradients
from ...english import list_some, nearest
from ...graph.capture import Capture, EdgeKey, OutputKey
from ...schema.backward import FewModel
from ...torch_api.nodes import (
    custom_function,
    gradient_edge,
    is_module_hook,
    outputs_metadata,
)
from ...torch_api.reading import has_hooks, knows_hooks
from .replay import Edit, Edits, Flow, Gradient, Kind, Replay, fitting
from .saved_copies import SavedCopies

_NO_NAMES = (
    "None of its tensors has a name: names come from the variables where the graph or recording "
    "was made, or from names={'w': w} there."
)


def find_place(replay: Replay, given: Any, caller: str) -> OutputKey:
    """Return the (node, output_nr) of a tensor, a ``GradientEdge``, a name, or the id of a node."""
    if isinstance(given, str):
        return _named(replay, given, caller)
    if isinstance(given, int) and not isinstance(given, bool):
        return _node(replay, given, caller), 0
    if isinstance(given, GradientEdge):
        node, nr = given.node, given.output_nr
    elif isinstance(given, torch.Tensor):
        if not given.requires_grad:
            raise ValueError(
                f"{caller} was given a tensor of shape {tuple(given.shape)} that does not require "
                "grad, so no gradient flows to it. Give a tensor of the graph, or its name."
            )
        node, nr = gradient_edge(given)
    else:
        raise TypeError(
            f"{caller} was given {given!r}, of type {type(given).__name__}. Give an edge as "
            "(consumer id, arg_nr), with the ids of capture(), a tensor, or a tensor's name."
        )
    for i, each in enumerate(replay.captured.nodes):
        if each is node:
            return i, nr
    raise ValueError(
        f"{caller} was given a tensor that is not in this graph: no gradient of the outputs leads "
        f"to it. Give one that is, or its name. {_some_names(replay)}"
    )


def find_edge(replay: Replay, given: tuple[Any, Any], caller: str) -> tuple[EdgeKey, OutputKey]:
    """Return an edge, and the place whose gradient flows through it."""
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in given):
        raise TypeError(
            f"{caller} was given the edge {given!r}. Give it as (consumer id, arg_nr), two whole "
            "numbers, with the ids of capture()."
        )
    consumer, arg_nr = _node(replay, given[0], caller), given[1]
    following = replay.following[consumer]
    there = [nr for nr, place in enumerate(following) if place is not None]
    if not 0 <= arg_nr < len(following):
        found = ", ".join(f"({consumer}, {nr})" for nr in there) or "none at all: it is a leaf"
        raise ValueError(
            f"{caller} was given the edge ({consumer}, {arg_nr}), but "
            f"{replay.named(consumer)} has no such input. Its edges are {found}."
        )
    place = following[arg_nr]
    if place is None:
        raise ValueError(
            f"{caller} was given the edge ({consumer}, {arg_nr}), but that input of "
            f"{replay.named(consumer)} needs no gradient, so none flows there. The inputs with a "
            f"gradient are {', '.join(map(str, there)) or 'none'}."
        )
    return (consumer, arg_nr), place


def called(replay: Replay, node: int) -> str:
    """Return the name of a node, or its operation and number."""
    data = replay.captured.attributes[node]
    return str(data["name"] or f"{data['op']} {node}")


def place_name(replay: Replay, place: OutputKey) -> str | None:
    """Return the name of a tensor; None if it has no name."""
    outputs = replay.captured.attributes[place[0]]["outputs"]
    name = outputs[place[1]]["name"] if place[1] < len(outputs) else None
    return None if name is None else str(name)


def _node(replay: Replay, given: int, caller: str) -> int:
    total = len(replay.captured.nodes)
    if not 0 <= given < total:
        raise ValueError(
            f"{caller} was given the node {given}, but this graph has nodes 0 to {total - 1} only, "
            "as capture() numbers them."
        )
    return given


def _names(replay: Replay) -> Iterator[tuple[str, OutputKey]]:
    for i, data in replay.captured.graph.nodes(data=True):
        for output in data["outputs"]:
            if output["name"]:
                yield str(output["name"]), (i, output["output_nr"])


def _named(replay: Replay, name: str, caller: str) -> OutputKey:
    found = [place for each, place in _names(replay) if each == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(
            f"{caller} was given the name {name!r}, which {len(found)} tensors have, of nodes "
            f"{list_some([str(node) for node, _ in found])}. Give the tensor itself, or an edge as "
            "(consumer id, arg_nr)."
        )
    hint = nearest(name, (each for each, _ in _names(replay))) or _some_names(replay)
    raise ValueError(
        f"{caller} was given {name!r}, but no tensor of this graph has that name. {hint}"
    )


def _some_names(replay: Replay) -> str:
    names = list(dict.fromkeys(name for name, _ in _names(replay)))
    return f"The names are {list_some(list(map(repr, names)))}." if names else _NO_NAMES


MOST_SHOWN = 100
"""The most reached nodes whose new gradients are kept."""


@dataclass(frozen=True)
class Outcome:
    """The effect of changes."""

    before: dict[OutputKey, Gradient]  # the gradient of each wanted place, without changes
    after: dict[OutputKey, Gradient]  # the gradient of each wanted place, with the changes
    reached: set[int]  # the nodes that a change can reach
    ran: int  # the number of nodes that ran again
    # Number of a change -> the gradient there without changes, where known.
    flowing: dict[int, Gradient]
    flowed: dict[int, Gradient]  # number of a change -> the gradient there with all changes
    # Reached node with one output -> its incoming gradient with all changes; empty for many nodes.
    arrived: dict[int, Gradient] = field(default_factory=dict)


class Experiment:
    """Change the gradients of one graph, any number of times.

    Attributes:
        replay: The graph.
        wanted: The places whose gradients are compared.
        seeds: The gradients that backward starts from.
        values: A cache: place -> values of its unchanged gradient.
    """

    def __init__(
        self,
        captured: Capture,
        gradient: Any = None,
        inputs: Any = None,
        max_bytes: int = 0,
        recorded: RecordedRun | None = None,
        *,
        copies: SavedCopies | None = None,
    ) -> None:
        """Run nothing yet.

        ``inputs``: the wanted tensors, or their names; None for every leaf. ``max_bytes``: the
        memory for kept gradients, so that a change runs only the nodes that it reaches.
        ``recorded``: a recorded pass. Its gradients are reused where they are known and no hook of
        the user changed them. It also gives the default of ``gradient``. ``copies``: copies of what
        a backward pass has freed.
        """
        self.replay = Replay(captured, copies)
        follows = recorded is not None and gradient is None
        if recorded is not None and follows and recorded.seeds is not None:
            gradient = recorded.seeds
        self._recorded = recorded if follows and not _has_hooks(captured) else None
        given = starting_gradients(captured, gradient)
        self.seeds = list(zip(captured.roots, given, strict=True))
        self.wanted = self._read_inputs(inputs)
        self.values: dict[OutputKey, FewModel | None] = {}
        self._max_bytes = max_bytes
        self._known: Flow | None = None
        self._kept: set[int] = set()  # the nodes of which it knows all

    def _read_inputs(self, inputs: Any) -> list[OutputKey]:
        if inputs is None:
            count = len(self.replay.captured.nodes)
            return [(i, 0) for i in range(count) if self.replay.is_leaf(i)]
        several = list(inputs) if isinstance(inputs, (list, tuple, set)) else [inputs]
        return [find_place(self.replay, each, "inputs") for each in several]

    def read(self, kind: Kind, given: Any, value: Any = None) -> Edit:
        """Check a change of an edge, tensor or name; ``value``: the factor or the replacement."""
        edge: EdgeKey | None = None
        if isinstance(given, tuple) and not hasattr(given, "node") and len(given) == 2:
            edge, place = find_edge(self.replay, given, kind)
            label = f"{called(self.replay, edge[0])} → {self.title(place)}"
        else:
            place = find_place(self.replay, given, kind)
            label = self.title(place)
        if kind == "scale":
            _check_factor(value, self.like(place), label)
        elif kind == "replace":
            if isinstance(value, torch.Tensor):
                value = fitting(value, self.like(place), label)
            elif not callable(value):
                fitting(value, None, label)
        return Edit(kind, edge, place, value, label)

    def title(self, place: OutputKey) -> str:
        """Return the label of a tensor."""
        return place_name(self.replay, place) or called(self.replay, place[0])

    def like(self, place: OutputKey) -> Any:
        """Something of a tensor's shape, dtype and device."""
        return outputs_metadata(self.replay.captured.nodes[place[0]])[place[1]]

    def before(self, keep: Any = lambda _: False) -> Flow:
        """Return the gradients of the whole graph without changes."""
        keep_too = {node for node, _ in self.wanted}
        only = self.replay.above(keep_too)
        return self.replay.run(self.seeds, only=only, keep=lambda i: i in keep_too or keep(i))

    def what_if(self, listed: Sequence[Edit]) -> Outcome:
        """Return the gradients with changes and without."""
        replay = self.replay
        asked = {node for node, _ in self.wanted}
        reached = replay.below(each.place[0] for each in listed)
        reached &= replay.above(asked)
        at_edits = {node for each in listed for node, _ in (each.edge or each.place, each.place)}
        at_edits |= asked
        border = {taker for i in reached for taker, _ in replay.takers[i]} - reached
        known = self._flow_of(border | at_edits)
        before = {place: _at(known, place) for place in self.wanted}
        edits = Edits(listed)
        if not reached:
            return Outcome(before, dict(before), set(), 0, {}, {})
        shown = reached if len(reached) <= MOST_SHOWN else set()
        kept = at_edits | shown
        keep = kept.__contains__
        flow = replay.run(self.seeds, edits, only=reached, known=known.passed, keep=keep)
        after = {at: _at(flow, at) if at[0] in reached else before[at] for at in self.wanted}
        flowing = {i: _at_edit(known, edit) for i, edit in enumerate(listed)}
        flowed = {
            i: _at(flow, edit.place) if edit.edge is None else edits.flowed.get(edit.edge)
            for i, edit in enumerate(listed)
        }
        nodes = replay.captured.nodes
        arrived = {i: _at(flow, (i, 0)) for i in shown if len(outputs_metadata(nodes[i])) == 1}
        return Outcome(before, after, reached, flow.ran, flowing, flowed, arrived)

    def _flow_of(self, needed: set[int]) -> Flow:
        """The gradients without changes, at least at some nodes; cached."""
        flow = None if self._recorded is None else self._recorded_flow(self._recorded, needed)
        if flow is not None:
            return flow
        if self._known is None or not needed <= self._kept:
            kept = set(range(len(self.replay.captured.nodes))) if self._fits() else needed
            self._known, self._kept = self.before(lambda i: i in kept), kept
        return self._known

    def _recorded_flow(self, run: RecordedRun, nodes: set[int]) -> Flow | None:
        """The gradients of some nodes in the recorded pass; None if not known in full."""
        flow = Flow()
        if not nodes <= run.steps.keys():  # as after backward(inputs=...)
            return None
        for i in nodes:
            step = run.steps[i]
            kept = [*step.grad_outputs, *step.grad_inputs]
            if any(each is not None and each.tensor is None for each in kept):
                return None
            flow.arrived[i] = [None if each is None else each.tensor for each in step.grad_outputs]
            passed = [None if each is None else each.tensor for each in step.grad_inputs]
            if passed:
                flow.passed[i] = self.replay.outgoing(i, passed)
        return flow

    def _fits(self) -> bool:
        """Whether the gradients of all nodes can be kept."""
        size = 0
        for _, data in self.replay.captured.graph.nodes(data=True):
            for output in data["outputs"]:
                dtype = getattr(torch, str(output["dtype"]).removeprefix("torch."), None)
                size += math.prod(output["shape"] or ()) * getattr(dtype, "itemsize", 8)
        return size <= self._max_bytes

    def notes(self, listed: Sequence[Edit]) -> list[str]:
        """Sentences on hooks that did not run, and on Python code of the user that ran."""
        captured = self.replay.captured
        hooked = [self.title(place) for place in _hooked(captured)] if knows_hooks() else []
        found = []
        if hooked:
            found.append(
                f"Your hooks on {list_some(hooked)} did not run, so neither number includes "
                "their effect."
            )
        ran = sorted(self.replay.above(node for node, _ in self.wanted))
        functions = (custom_function(captured.nodes[i]) for i in ran)
        classes = dict.fromkeys(each for each in functions if each is not None)
        if any(map(is_module_hook, classes)):
            found.append(
                "Backward hooks of a module, from register_full_backward_hook or "
                "register_full_backward_pre_hook, did not run, so neither number includes their "
                "effect."
            )
        customs = [each.__name__ for each in classes if not is_module_hook(each)]
        if customs:
            found.append(
                f"The Python backward of {list_some(customs)} ran again, with all its side effects."
            )
        if not listed:
            found.append("Nothing was changed, so before and after are the same.")
        return found


def _hooked(captured: Capture) -> list[OutputKey]:
    """The known tensors with hooks of the user."""
    tensors = {(i, 0): leaf for i, leaf in captured.leaves()}
    alive = {place: ref() for place, ref in captured.tensors.items()}
    tensors |= {place: tensor for place, tensor in alive.items() if tensor is not None}
    return [place for place, tensor in tensors.items() if has_hooks(tensor)]


def _has_hooks(captured: Capture) -> bool:
    """Whether known hooks may have changed the gradients of the recorded pass."""
    functions = map(custom_function, captured.nodes)
    are_of_modules = (each is not None and is_module_hook(each) for each in functions)
    return bool(_hooked(captured)) or any(are_of_modules)


def _at(flow: Flow, place: OutputKey) -> Gradient:
    arrived = flow.arrived.get(place[0])
    return None if arrived is None else arrived[place[1]]


def _at_edit(flow: Flow, edit: Edit) -> Gradient:
    """The gradient at a change, before it."""
    if edit.edge is None:
        return _at(flow, edit.place)
    passed = flow.passed.get(edit.edge[0])
    return None if passed is None else passed[edit.edge[1]]


def _check_factor(value: Any, like: Any, label: str) -> None:
    number = value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value
    if isinstance(number, bool) or not isinstance(number, (int, float, complex)):
        raise TypeError(
            f"scale was given {value!r}, of type {type(value).__name__}, for {label}. Give a "
            "number; for one factor per number of the gradient use replace={edge: lambda grad: "
            "grad * factors}."
        )
    if isinstance(number, complex) and not like.dtype.is_complex:
        raise TypeError(
            f"scale was given the complex number {number} for {label}, whose gradient is of "
            f"{like.dtype}. Give a real one."
        )


def read_edits(experiment: Experiment, cut: Any, scale: Any, replace: Any) -> list[Edit]:
    """Return the changes of a call of `what_if`, from its arguments of the same names."""
    is_pair = isinstance(cut, tuple) and len(cut) == 2 and all(type(each) is int for each in cut)
    if is_pair or isinstance(cut, (str, torch.Tensor)) or hasattr(cut, "node"):
        cut = [cut]
    if not isinstance(cut, (list, tuple, set, frozenset)):
        raise TypeError(
            f"cut was given {cut!r}, of type {type(cut).__name__}. Give a list of edges: each "
            "(consumer id, arg_nr), a tensor, or a tensor's name."
        )
    found = [experiment.read("cut", each) for each in cut]
    kinds: list[tuple[Kind, Any]] = [("scale", scale), ("replace", replace)]
    for kind, given in kinds:
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(
                f"{kind} was given {given!r}, of type {type(given).__name__}. Give a dict from "
                f"edges to {'factors' if kind == 'scale' else 'tensors or functions'}, such as "
                f"{{'h': {'0.5' if kind == 'scale' else 'torch.sign'}}}."
            )
        found += [experiment.read(kind, edge, value) for edge, value in (given or {}).items()]
    return found
