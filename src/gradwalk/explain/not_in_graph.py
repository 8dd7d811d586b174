"""Explain why a tensor is not part of the graph of a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph.labels import described
from ..torch_api.reading import own_part
from ..torch_api.tensors import version_of
from ..tracing.cuts import Cut, alias_of
from ..tracing.records import has_watched
from .constants_and_cuts import at_line, lost_by
from .copies import about_copy, taken_alias
from .loss_graph import LossGraph
from .reason import Asked, Reason, operation

_ADDED = "a term that is only added, such as a last bias, drops out of a derivative"


def reason_outside(asked: Asked, graph: LossGraph) -> Reason:
    """Explain why a tensor that requires grad is not part of the graph of a loss."""
    return next(found for find in _FINDERS if (found := find(asked, graph)) is not None)


def _taken(asked: Asked, graph: LossGraph) -> Reason | None:
    taken = graph.taken_as_constant(asked.tensor)
    if taken is None or graph.captured is None:
        return None
    return asked.reason("taken as constant", graph.name, op=operation(graph.captured, taken))


def _cut(asked: Asked, graph: LossGraph) -> Reason | None:
    # Integers come last: they are the reason only if no other applies.
    cuts = sorted(graph.cuts_from(asked.tensor), key=lambda cut: cut.how.startswith("integer"))
    return asked.reason("cut", graph.name, lost=_cut_off(asked, cuts)) if cuts else None


def _alias(asked: Asked, graph: LossGraph) -> Reason | None:
    alias = taken_alias(graph, asked.tensor)
    if alias is None:
        return None
    lost = lost_by(alias_of(asked.tensor, alias.where), asked.within)
    return asked.reason("cut", graph.name, lost=lost)


def _sharded(asked: Asked, graph: LossGraph) -> Reason | None:
    is_part = asked.tensor.is_leaf and own_part(asked.tensor) is not None
    return asked.reason("sharded", graph.name) if is_part else None


def _inner(asked: Asked, graph: LossGraph) -> Reason | None:
    inner = graph.inner_node_of(asked.tensor)
    if inner is None or graph.captured is None:
        return None
    return asked.reason("inner", graph.name, op=operation(graph.captured, inner))


def _leaf_loss(asked: Asked, graph: LossGraph) -> Reason | None:
    return asked.reason("leaf loss", graph.name) if graph.is_leaf else None


def _no_graph(asked: Asked, graph: LossGraph) -> Reason | None:
    if graph.captured is not None:
        return None
    is_watched = graph.is_watched or has_watched()
    return asked.reason("no graph, watched" if is_watched else "no graph", graph.name)


def _changed(asked: Asked, graph: LossGraph) -> Reason | None:
    is_changed = not asked.tensor.is_leaf and version_of(asked.tensor)
    return asked.reason("changed in place", graph.name) if is_changed else None


def _copied(asked: Asked, graph: LossGraph) -> Reason | None:
    copied = about_copy(graph, asked.tensor, asked.within)
    return asked.reason("copied", graph.name, copied=copied) if copied else None


def _used(asked: Asked, graph: LossGraph) -> Reason | None:
    use = graph.uses.get(id(asked.tensor))
    if use is None:
        return None
    return asked.reason("used elsewhere", graph.name, at=at_line(use.where, text=True))


def _unused(asked: Asked, graph: LossGraph) -> Reason:
    if not graph.is_watched:
        return asked.reason("unwatched", graph.name)
    if graph.sees_all:  # all operations; an `if`, a deepcopy() or a Parameter(...) is none
        return asked.reason("unused", graph.name)
    unseen = ""
    if graph.unseen_leaf is not None and graph.captured is not None:
        leaf = described(graph.captured.graph, graph.unseen_leaf)
        unseen = f", such as how {leaf} was made"
    return asked.reason("unknown", graph.name, unseen=unseen)


def _by_derivative(asked: Asked, graph: LossGraph) -> Reason | None:
    use = graph.uses.get(id(asked.tensor))
    if use is None or use.derivatives is None:
        return None
    reasons = [_ADDED] if asked.tensor.dim() < 2 else []
    if use.derivatives.linear is not None:
        name, where = use.derivatives.linear
        reasons.append(
            f"the second derivative of {name}{at_line(where)} is zero, unlike that of tanh"
        )
    return asked.reason(
        "derivative",
        graph.name,
        at=at_line(use.where, text=True),
        derivative=at_line(use.derivatives.where),
        reason=", and ".join(reasons) or "it drops out when the derivative is taken",
    )


def _read_out(asked: Asked, graph: LossGraph) -> Reason | None:
    readings = graph.readings_of(asked.tensor)
    if not readings or (graph.captured is not None and not graph.is_watched):
        return None
    last = readings[-1]
    if last.how == "checkpoint":
        waits = graph.captured is not None and any(r.is_reentrant for r in graph.captured.regions)
        cause = "checkpoint, waiting" if waits else "checkpoint"
        return asked.reason(cause, graph.name, at=at_line(last.where, text=True))
    if last.how == "function":
        return asked.reason("function", graph.name, at=at_line(last.where, text=True))
    others = len(readings) - 1
    return asked.reason(
        "read out",
        graph.name,
        what="a NumPy array" if last.how == "numpy" else "Python numbers",
        at=at_line(last.where, text=True),
        more=f" and at {others} more line{'s' * (others > 1)}" if others else "",
    )


def _cut_off(asked: Asked, cuts: Sequence[Cut]) -> str:
    own = cuts[0].source() is asked.tensor
    source = asked.within if own else f"a tensor that was computed from {asked.within}"
    others = len(cuts) - 1
    more = f" (and the like at {others} more place{'s' * (others > 1)})" if others > 0 else ""
    return lost_by(cuts[0], source, more)


_FINDERS: tuple[Callable[[Asked, LossGraph], Reason | None], ...] = (
    _taken,
    _cut,
    _alias,
    _sharded,
    _inner,
    _by_derivative,
    _read_out,
    _leaf_loss,
    _no_graph,
    _changed,
    _copied,
    _used,
    _unused,
)
"""The possible causes, the surest first; the last one always applies."""
