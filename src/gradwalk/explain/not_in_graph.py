"""Explain why a tensor is not part of the graph of a loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from ..english import list_some, plural
from ..graph.labels import described
from ..torch_api.dtensors import own_part
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import PART, is_plain, overlap, version_of
from ..tracing.annotations import unrecorded_sources
from ..tracing.cuts import Cause, Cut, UnrecordedSource, alias_of
from ..tracing.records import has_watched, ran_with
from .asked import Asked
from .constants_and_cuts import at_line, lost_by, words_of
from .loss_graph import LossGraph
from .reason import Reason


@dataclass(frozen=True)
class CutOff:
    """How a tensor is cut off."""

    # Sets of cuts. Once one of them is removed, a gradient reaches the tensor.
    sets: list[list[Cut]]
    is_known: bool  # whether that is so. Else there is one set, of all cuts on the way.

    @property
    def causes(self) -> tuple[object, ...]:
        """Equal for tensors that the same lines cut off."""
        return self.is_known, *(tuple(cut.cause for cut in cuts) for cuts in self.sets)


def cut_off(graph: LossGraph, tensor: torch.Tensor) -> CutOff | None:
    """Return how a tensor that needs grad is cut off; None where no cut is known."""
    known = graph.reconnecting(tensor)
    # Prefer other cuts to integers.
    smooth = [cuts for cuts in known if not any(cut.is_integer for cut in cuts)]
    if known:
        return CutOff(smooth or known, True)
    cuts = graph.cuts_from(tensor)
    return CutOff([cuts], False) if cuts else None


def about_cut_off(found: CutOff, names: Mapping[int, str], them: str, place: str = "") -> str:
    """Say which cuts are in the way, and what to do where that is known; to follow a colon."""
    first, *others = found.sets
    causes = _causes_of(first)
    if not others and len(causes) == 1:
        source = names.get(id(first[0].source()), f"a tensor computed from {them}")
        return f"{place}{lost_by(first[0], source, advise=found.is_known)}."
    if not others:
        advice = " Remove all of them if gradients should flow." if found.is_known else ""
        return f"it is cut off by {_all(causes)}.{advice}"
    each = list(dict.fromkeys(_all(_causes_of(cuts)) for cuts in found.sets))
    if len(causes) > 1:
        ways = "; ".join(f"by {cuts}" for cuts in each)
        return (
            f"it is cut off on each of its ways: {ways}. Remove all cuts of one way if gradients "
            "should flow; the others may be meant."
        )
    return (
        f"it is cut off by {list_some(each)}. Without one of these it gets a gradient; the others "
        "may be meant."
    )


def _causes_of(cuts: list[Cut]) -> list[Cause]:
    return list(dict.fromkeys(cause for cut in cuts for cause in (cut.cause, *cut.again)))


def _all(causes: list[Cause]) -> str:
    return list_some(list(dict.fromkeys(map(words_of, causes))))


_MOST_COMPARED = 2**24  # numbers of a leaf
_CLOSE = 0.5  # tensors that have nothing to do with each other are about 1.4 apart
_CLOSE_OF_FEW = 0.05  # a handful of numbers may be closer than that by chance
_FEW = 16
_ALIKE = 1e-9  # of the squares: rounding


def taken_alias(graph: LossGraph, tensor: torch.Tensor) -> UnrecordedSource | None:
    """Find a tensor of the forward pass that shares memory with one, but needs no grad."""
    for each in _unseen(graph):
        alias = each.tensor()
        if alias is not None and alias is not tensor and overlap(alias, tensor):
            return each
    return None


def _unseen(graph: LossGraph) -> Iterator[UnrecordedSource]:
    """Yield the inputs of the loss that need no grad and that `watch` did not see made."""
    for tensor in graph.without_grad:
        yield from unrecorded_sources(tensor)
    if graph.captured is None:
        return
    for annotation in graph.captured.annotations.values():
        for constant in annotation.constants:
            if constant.origin is not None:
                yield from constant.origin.unrecorded
            elif constant.tensor is not None:
                yield UnrecordedSource(constant.tensor, annotation.source)
    for leaf in map(leaf_tensor, graph.captured.nodes):
        yield from unrecorded_sources(leaf)


def about_copy(graph: LossGraph, tensor: torch.Tensor, within: str) -> str:
    """Describe a leaf that may be a copy of a tensor, after a space; empty if no leaf fits."""
    if graph.captured is None:
        return ""
    alike = graph.leaves_like(tensor)
    words = graph.captured.graph
    for node, leaf in alike:
        if overlap(leaf, tensor):
            return (
                f" {described(words, node)} of this graph is another tensor in the memory of "
                f"{within}, as Parameter(), .data or detach() make it. It gets the gradient, "
                f"in its own .grad. Use {within} itself."
            )
    near = [(apart, node) for node, leaf in alike if (apart := _apart(leaf, tensor)) is not None]
    close = _CLOSE if tensor.numel() >= _FEW else _CLOSE_OF_FEW
    apart, node = min(near, default=(close, 0))
    if apart >= close:
        return ""
    if apart == 0:
        return (
            f" {described(words, node)} of this graph holds the same numbers: if it is a copy of "
            f"{within} (as by deepcopy(), clone() or functional_call), the copy gets the gradient."
        )
    return (
        f" {described(words, node)} of this graph holds nearly the same numbers (the norm of the "
        f"difference is {apart:.2g} times that of their spread). It is likely a copy, as by "
        "deepcopy(), load_state_dict(), Parameter() or .data, that was changed since. Then the "
        f"copy gets the gradient instead of {within}."
    )


def _apart(leaf: torch.Tensor, tensor: torch.Tensor) -> float | None:
    """Return the distance of two tensors relative to their spread; None for constant tensors."""
    count = tensor.numel()
    if not 1 < count <= _MOST_COMPARED:
        return None
    try:
        if not (is_plain(leaf) and is_plain(tensor)) or tensor.is_complex():
            return None
        rows = max(1, PART * len(tensor) // count)
        total = squares = moved = 0.0
        for start in range(0, len(tensor), rows):
            few = slice(start, start + rows)
            one, two = leaf.detach()[few].double(), tensor.detach()[few].double()
            total += float(two.sum())
            squares += float(two.square().sum())
            moved += float((one - two).square().sum())
        spread = squares - total**2 / count
        return math.sqrt(moved / spread) if spread > _ALIKE * squares else None
    except Exception:  # a tensor of any class may refuse
        return None


_ADDED = "a term that is only added, such as a last bias, drops out of a derivative"


def reason_outside(asked: Asked) -> Reason:
    """Explain why a tensor that requires grad is not part of the graph of a loss."""
    return _sure_reason(asked) or _reason_left(asked)


def _sure_reason(asked: Asked) -> Reason | None:
    """Explain it by evidence about the tensor itself, the surest first."""
    graph, tensor, within = asked.graph, asked.tensor, asked.within
    taken = graph.taken_as_constant(tensor)
    if taken is not None:
        return asked.reason("taken as constant", op=asked.operation(taken))
    if (found := cut_off(graph, tensor)) is not None:
        lost = about_cut_off(found, {id(tensor): within}, within)
        return asked.reason("cut", lost=lost)
    if (alias := taken_alias(graph, tensor)) is not None:
        lost = f"{lost_by(alias_of(tensor, alias.where), within)}."
        return asked.reason("cut", lost=lost)
    if tensor.is_leaf and own_part(tensor) is not None:
        return asked.reason("sharded")
    if asked.inner is not None:
        return asked.reason("inner", op=asked.operation(asked.inner))
    return _by_derivative(asked) or _read_out(asked)


def _reason_left(asked: Asked) -> Reason:
    graph, tensor = asked.graph, asked.tensor
    if graph.is_leaf:
        return asked.reason("leaf loss")
    if graph.captured is None and graph.is_watched:
        return asked.reason("no graph, watched")
    if graph.captured is None:
        where = " Run the forward pass under gradwalk.watch() to see where."
        return asked.reason("no graph", again="" if has_watched() else where)
    if not tensor.is_leaf and version_of(tensor):
        return asked.reason("changed in place")
    if copied := about_copy(graph, tensor, asked.within):
        return asked.reason("copied", copied=copied)
    if (use := graph.uses.get(id(tensor))) is not None:
        return asked.reason("used elsewhere", at=at_line(use.where, text=True))
    return _unused(asked)


def _unused(asked: Asked) -> Reason:
    graph = asked.graph
    if not graph.is_watched:
        cause = "unwatched, derivative" if graph.holds_derivatives else "unwatched"
        return asked.reason(cause)
    if ran_with(asked.tensor):
        return asked.reason("result unused")
    if graph.sees_all:  # all operations; an `if`, a deepcopy() or a Parameter(...) is none
        return asked.reason("unused")
    unseen = ""
    if graph.unseen_leaf is not None and graph.captured is not None:
        leaf = described(graph.captured.graph, graph.unseen_leaf)
        unseen = f", such as how {leaf} was made"
    return asked.reason("unknown", unseen=unseen)


def _by_derivative(asked: Asked) -> Reason | None:
    use = asked.graph.uses.get(id(asked.tensor))
    if use is None or use.derivatives is None:
        return None
    reasons = [_ADDED] if asked.tensor.dim() < 2 else []
    if use.derivatives.linear is not None:
        name, where = use.derivatives.linear
        reasons.append(
            f"the second derivative of {name}{at_line(where)} is zero, unlike that of tanh"
        )
    why = ", and ".join(reasons) or "it drops out when the derivative is taken"
    at, derivative = at_line(use.where, text=True), at_line(use.derivatives.where)
    return asked.reason("derivative", at=at, derivative=derivative, reason=why)


def _read_out(asked: Asked) -> Reason | None:
    graph = asked.graph
    readings = graph.readings_of(asked.tensor)
    if not readings or (graph.captured is not None and not graph.is_watched):
        return None
    last = readings[-1]
    if last.how == "checkpoint":
        waits = graph.captured is not None and any(r.is_reentrant for r in graph.captured.regions)
        cause = "checkpoint, waiting" if waits else "checkpoint"
        return asked.reason(cause, at=at_line(last.where, text=True))
    if last.how == "function":
        return asked.reason("function", at=at_line(last.where, text=True))
    others = len(readings) - 1
    more = f" and at {plural(others, 'more line')}" if others else ""
    what = "a NumPy array" if last.how == "numpy" else "Python numbers"
    at = at_line(last.where, text=True)
    return asked.reason("read out", what=what, at=at, more=more)
