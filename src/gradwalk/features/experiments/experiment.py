"""Compute the gradients of one graph, with and without changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...backward.recorded_run import RecordedRun
from ...backward.run_backward import starting_gradients
from ...english import list_some
from ...graph.attributes import Place
from ...graph.capture import Capture
from ...schema.backward import FewModel
from ...torch_api.nodes import ModuleHook, custom_function, leaf_tensor, outputs_metadata
from ...torch_api.tensors import has_hooks
from .change import Edit, Edits, Kind, fitting
from .places import called, find_edge, find_place, place_name
from .replay import Flow, Gradient, Replay


@dataclass(frozen=True)
class Outcome:
    """The effect of changes.

    Attributes:
        before: The gradient of each wanted place, without changes.
        after: The gradient of each wanted place, with the changes.
        reached: The nodes that a change can reach.
        ran: The number of nodes that ran again.
        flowing: Number of a change -> the gradient there without changes, where known.
        flowed: Number of a change -> the gradient there with all changes.
    """

    before: dict[Place, Gradient]
    after: dict[Place, Gradient]
    reached: set[int]
    ran: int
    flowing: dict[int, Gradient]
    flowed: dict[int, Gradient]


class Experiment:
    """Change the gradients of one graph, any number of times.

    Attributes:
        replay: The graph.
        wanted: The places whose gradients are compared.
        seeds: The gradients that backward starts from.
        told: A cache: place -> values of its unchanged gradient.
    """

    def __init__(
        self,
        captured: Capture,
        gradient: Any = None,
        inputs: Any = None,
        max_bytes: int = 0,
        recorded: RecordedRun | None = None,
    ) -> None:
        """Run nothing yet.

        Args:
            captured: The graph.
            gradient: The gradient to start from, as for ``Tensor.backward``.
            inputs: The wanted tensors, or their names; None for every leaf.
            max_bytes: The memory for kept gradients, so that a change runs only the nodes that it
                reaches.
            recorded: A recorded pass. Its gradients are reused where they are known and no hook of
                the user changed them. It also gives the default of ``gradient``.

        Raises:
            TypeError: ``gradient`` or ``inputs`` is of the wrong kind.
            ValueError: ``gradient`` is missing or does not fit, or an input is not in the graph.
        """
        self.replay = Replay(captured)
        follows = recorded is not None and gradient is None
        if recorded is not None and follows and recorded.seeds is not None:
            gradient = recorded.seeds
        self._recorded = recorded if follows and not _has_hooks(captured) else None
        given = starting_gradients(captured, gradient)
        self.seeds = list(zip(captured.roots, given, strict=True))
        self.wanted = self._read_inputs(inputs)
        self.told: dict[Place, FewModel | None] = {}
        self._max_bytes = max_bytes
        self._known: Flow | None = None
        self._kept: set[int] = set()  # the nodes of which it knows all

    def _read_inputs(self, inputs: Any) -> list[Place]:
        if inputs is None:
            count = len(self.replay.captured.nodes)
            return [(i, 0) for i in range(count) if self.replay.is_leaf(i)]
        several = list(inputs) if isinstance(inputs, (list, tuple, set)) else [inputs]
        return [find_place(self.replay, each, "inputs") for each in several]

    def read(self, kind: Kind, given: Any, value: Any = None) -> Edit:
        """Check a change and return it.

        Args:
            kind: "cut", "scale" or "replace".
            given: The place: (consumer id, input_nr), a tensor, or its name.
            value: The factor, or the replacement of the gradient.

        Raises:
            TypeError: Something is of the wrong kind.
            ValueError: The place is not in the graph, or a tensor does not fit.
        """
        edge: Place | None = None
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

    def title(self, place: Place) -> str:
        """Return the label of a tensor."""
        return place_name(self.replay, place) or called(self.replay, place[0])

    def like(self, place: Place) -> Any:
        """Something of a tensor's shape, dtype and device."""
        return outputs_metadata(self.replay.captured.nodes[place[0]])[place[1]]

    def before(self, keep: Any = lambda _: False) -> Flow:
        """Return the gradients of the whole graph without changes."""
        replay = self.replay
        keep_too = {node for node, _ in self.wanted}
        only = replay.above(keep_too)
        if len(only) < len(replay.captured.nodes):
            return replay.run(self.seeds, only=only, keep=lambda i: i in keep_too or keep(i))
        return replay.run(self.seeds, keep=lambda i: i in keep_too or keep(i))

    def what_if(self, listed: Sequence[Edit]) -> Outcome:
        """Return the gradients with changes and without.

        Args:
            listed: The changes, in order.

        Raises:
            RuntimeError: A node cannot run again, or a replacing function raised.
            TypeError: A replacing function returned a wrong type.
            ValueError: A replacing function returned another shape.
        """
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
        flow = replay.run(
            self.seeds, edits, only=reached, known=known.passed, keep=lambda i: i in at_edits
        )
        after = {
            place: _at(flow, place) if place[0] in reached else before[place]
            for place in self.wanted
        }
        flowing = {i: _at_edit(known, edit) for i, edit in enumerate(listed)}
        flowed = {
            i: _at(flow, edit.place) if edit.edge is None else edits.flowed.get(edit.edge)
            for i, edit in enumerate(listed)
        }
        return Outcome(before, after, reached, flow.ran, flowing, flowed)

    def _flow_of(self, needed: set[int]) -> Flow:
        """The gradients without changes, at least at some nodes; cached."""
        told = None if self._recorded is None else self._recorded_flow(self._recorded, needed)
        if told is not None:
            return told
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
        replay = self.replay
        captured = replay.captured
        hooked = [self.title(place) for place in _hooked(captured)]
        found = []
        if hooked:
            found.append(
                f"Your hooks on {list_some(hooked)} did not run, so neither number includes "
                "their effect."
            )
        ran = replay.above(node for node, _ in self.wanted)
        classes = {
            custom: None
            for i in sorted(ran)
            if (custom := custom_function(captured.nodes[i])) is not None
        }
        if ModuleHook in classes:
            found.append(
                "Backward hooks of a module, from register_full_backward_hook or "
                "register_full_backward_pre_hook, did not run, so neither number includes their "
                "effect."
            )
        customs = [each.__name__ for each in classes if each is not ModuleHook]
        if customs:
            found.append(
                f"The Python backward of {list_some(customs)} ran again, with all its side effects."
            )
        if not listed:
            found.append("Nothing was changed, so before and after are the same.")
        return found


def _hooked(captured: Capture) -> list[Place]:
    """The known tensors with hooks of the user."""
    tensors = {
        (i, 0): leaf
        for i, node in enumerate(captured.nodes)
        if (leaf := leaf_tensor(node)) is not None
    }
    alive = {place: ref() for place, ref in captured.tensors.items()}
    tensors |= {place: tensor for place, tensor in alive.items() if tensor is not None}
    return [place for place, tensor in tensors.items() if has_hooks(tensor)]


def _has_hooks(captured: Capture) -> bool:
    """Whether known hooks may have changed the gradients of the recorded pass."""
    if any(custom_function(node) is ModuleHook for node in captured.nodes):
        return True
    return bool(_hooked(captured))


def _at(flow: Flow, place: Place) -> Gradient:
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
    if isinstance(number, int) and abs(number) >= 2**63:
        raise ValueError(
            f"scale was given a whole number of {number.bit_length()} bits for {label}, and torch "
            "multiplies by such of 64 bits at most. Give it as a float."
        )


def read_edits(experiment: Experiment, cut: Any, scale: Any, replace: Any) -> list[Edit]:
    """Return the changes of a call of `what_if`.

    Args:
        experiment: The graph.
        cut: Edges, or one.
        scale: A mapping from edges to factors, or None.
        replace: A mapping from edges to tensors or functions, or None.

    Raises:
        TypeError: One is of the wrong kind.
        ValueError: A place is not in the graph, or a tensor does not fit.
    """
    is_pair = isinstance(cut, tuple) and len(cut) == 2 and all(type(each) is int for each in cut)
    if is_pair or isinstance(cut, (str, torch.Tensor)) or hasattr(cut, "node"):
        cut = [cut]
    if not isinstance(cut, (list, tuple, set, frozenset)):
        raise TypeError(
            f"cut was given {cut!r}, of type {type(cut).__name__}. Give a list of edges: each "
            "(consumer id, input_nr), a tensor, or a tensor's name."
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
