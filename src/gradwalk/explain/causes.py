"""Explain why a tensor's ``.grad`` is None, zero or set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from ..backward.failures import is_zero
from ..backward.recorded_run import RecordedRun
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import everywhere, finite, version_of, why_unreadable
from ..tracing.annotate import Annotated
from ..tracing.annotations import cuts_of
from .constants_and_cuts import at_line, lost_by
from .describe_node import was_handed_back
from .loss_graph import LossGraph
from .not_in_graph import reason_outside
from .passes import arrived, effect_on, timeline_of
from .reason import Asked, Reason, operation
from .zero_derivatives import Block, Blocks, factors_of, zero_slopes

_MOST_BLOCKS = 2
_ZERO_AT = {
    "passed": "at {}",
    "hook": "before {}, as by a hook",
    "sum": "where the contributions to {} add up",
}


def reason_of(tensor: torch.Tensor, name: str | None, graph: LossGraph | None) -> Reason:
    """Explain why the ``.grad`` of a tensor is as it is; ``graph``: None when no loss was given."""
    asked = Asked(tensor, name)
    has_grad = tensor.is_leaf or tensor.retains_grad  # else torch warns when .grad is read
    grad = tensor.grad if has_grad else None
    if grad is not None:
        return _set(asked, grad, graph)
    node = graph.node_of(tensor) if graph is not None else None
    if not tensor.requires_grad:
        return _frozen(asked, graph, node)
    if graph is None:
        return asked.reason("no loss" if has_grad else "intermediate")
    if node is None:
        return reason_outside(asked, graph)
    if not has_grad:
        return asked.reason("intermediate")
    return _none(asked, graph, node)


def _set(asked: Asked, grad: torch.Tensor, graph: LossGraph | None) -> Reason:
    is_zero = _holds(grad, lambda part: part == 0)
    if is_zero:
        return _zero(asked, grad, graph)
    odd = _not_finite(grad)
    found = _not_a_number(asked, odd, graph) if odd else _held(asked, graph)
    return found if is_zero is False else replace(found, is_read=False)


def _held(asked: Asked, graph: LossGraph | None) -> Reason:
    """Explain a gradient that is finite and not zero."""
    if graph is None:
        return asked.reason("set")
    tensor = asked.tensor
    node, inner = graph.node_of(tensor), graph.inner_node_of(tensor)
    if node is None and inner is None:
        if not tensor.requires_grad:
            return asked.reason("elsewhere, frozen", graph.name)
        outside = reason_outside(asked, graph).sentence
        return asked.reason("elsewhere", graph.name, outside=outside)
    if not tensor.requires_grad:
        return asked.reason("frozen, set", graph.name)
    run = graph.run
    if run is not None and (node is not None or timeline_of(run, tensor) is not None):
        effect = effect_on(run, node, tensor)
        if effect in ("changed", "differs") and _has_ranks():
            effect = "reduced"
        return asked.reason(effect, graph.name, at=_stopped_at(graph, run))
    if inner is not None and graph.captured is not None:
        return asked.reason("inner, set", op=operation(graph.captured, inner))
    return asked.reason("unrecorded", graph.name)


def _has_ranks() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _not_a_number(asked: Asked, odd: str, graph: LossGraph | None) -> Reason:
    if graph is None:
        return asked.reason("nan", odd=odd)
    node = graph.node_of(asked.tensor)
    if node is None and graph.inner_node_of(asked.tensor) is None:
        return asked.reason("nan, outside", graph.name, odd=odd)
    came = arrived(graph.run, node, asked.tensor) if graph.run is not None else None
    if came is not None and came.tensor is not None and not _not_finite(came.tensor):
        return asked.reason("nan, not by pass", graph.name, odd=odd)
    captured, first = graph.captured, graph.first_nan
    if first is None or captured is None:
        return asked.reason("nan", graph.name, odd=odd)
    return asked.reason("nan, recorded", odd=odd, op=operation(captured, first))


def _zero(asked: Asked, grad: torch.Tensor, graph: LossGraph | None) -> Reason:
    if graph is None:
        return asked.reason("zero")
    tensor, captured = asked.tensor, graph.captured
    node, inner = graph.node_of(tensor), graph.inner_node_of(tensor)
    if node is None and inner is not None and captured is not None:
        return asked.reason("zero, inner", graph.name, op=operation(captured, inner))
    if node is None or captured is None:
        return asked.reason("zero, outside", graph.name)
    blocks = graph.blocking.before(node)
    if blocks.found:
        return asked.reason("zero, blocked", graph.name, blocks=_blocked(captured, graph, blocks))
    custom = graph.custom_function_before(node)
    passed = f", or the backward of {custom} returned zeros" if custom else ""
    if graph.run is not None:
        cause, where = _zero_in_pass(graph, graph.run, node, tensor)
        if cause == "zero, unread" and blocks.unknown:
            cause = "zero, freed"
        return asked.reason(cause, graph.name, custom=passed, where=where)
    if blocks.unknown:
        return asked.reason("zero, freed", graph.name)
    # A gradient that one pass stored has version 0. Adding to it and clearing it count up.
    cause = "zero, version" if version_of(grad) else "zero, unseen"
    return asked.reason(cause, graph.name, custom=passed)


def _zero_in_pass(
    graph: LossGraph, run: RecordedRun, node: int, tensor: torch.Tensor
) -> tuple[str, str]:
    """Return the cause of a gradient of zeros by a recorded pass, and where it became zero."""
    captured = graph.captured
    assert captured is not None
    timeline, came = timeline_of(run, tensor), arrived(run, node, tensor)
    if timeline is not None and timeline.now == 0 and len(timeline.moments) > 1:
        return "zero, before step", ""
    if came is None:
        return "zero, not by pass", ""
    if came.was_changed:
        return "zero, unread", ""
    if not is_zero(came):
        return "zero, overwritten", ""
    birth = graph.first_zero(node)
    if birth is not None:
        where = _ZERO_AT[birth.how].format(operation(captured, birth.node))
        slopes = zero_slopes(captured, run, birth)
        return "zero, recorded", f"{where}: {slopes}" if slopes else where
    roots = [run.steps[root] for root, _ in captured.roots if root in run.steps]
    if roots and all(is_zero(kept) for step in roots for kept in step.grad_outputs if kept):
        return "zero, from the start", ""
    return "zero, unread", ""


def _blocked(captured: Annotated, graph: LossGraph, found: Blocks) -> str:
    blocks = found.found
    parts = [
        f"{operation(captured, block.node)} blocks it ({block.why.words})"
        for block in blocks[:_MOST_BLOCKS]
    ]
    rest = len(blocks) - _MOST_BLOCKS
    count = f"at least {rest}" if found.is_more else rest
    more = f", and {count} more block the other ways" if rest > 0 else ""
    ends = blocks[0].why.remedy
    waits = next((name for block in blocks for name in _zero_until_step(captured, block)), None)
    if waits is not None:
        ends = f"{waits} is zero and has a gradient itself, so this ends with its first step"
        return f"{', and '.join(parts)}{more}. {ends}"
    if blocks[0].node in graph.margins:
        ends = "its result is only added up, as in a loss of margins that are all kept"
    return f"{', and '.join(parts)}{more}. {ends[0].upper()}{ends[1:]}"


def _zero_until_step(captured: Annotated, block: Block) -> Iterator[str]:
    """Yield the names of the leaves whose zeros block, and that have a gradient themselves."""
    for node in factors_of(captured, block):
        leaf = leaf_tensor(captured.nodes[node])
        grad = None if leaf is None else leaf.grad
        if grad is not None and _holds(grad, lambda part: part == 0) is False:
            yield captured.graph.nodes[node]["name"] or "That factor"


def _frozen(asked: Asked, graph: LossGraph | None, node: int | None) -> Reason:
    tensor = asked.tensor
    if node is not None and graph is not None:
        return asked.reason("frozen since", graph.name)
    cuts = cuts_of(tensor)
    if tensor.is_inference():
        return asked.reason("inference", at=at_line(cuts[0].where) if cuts else "")
    if cuts:
        return asked.reason("constant", lost=lost_by(cuts[0], "a tensor that requires grad"))
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return asked.reason("integer", dtype=str(tensor.dtype))
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return asked.reason("frozen parameter" if is_parameter else "frozen")


def _none(asked: Asked, graph: LossGraph, node: int) -> Reason:
    """Explain why the ``.grad`` of a tensor of the graph is None."""
    assert graph.captured is not None
    run = graph.run
    custom = graph.custom_function_before(node)
    if run is None:
        passed = f", or the backward of {custom} returned None" if custom else ""
        late = "" if asked.tensor.is_leaf else ", or ran before retain_grad()"
        cause = "ran" if graph.backward_ran(node) else "waiting"
        call = _call_of_backward(graph)
        return asked.reason(cause, graph.name, custom=passed, late=late, call=call)
    timeline = timeline_of(run, asked.tensor)
    if run.state == "stopped":
        at, remedy = _stopped_at(graph, run), graph.remedy
        return asked.reason("stopped", graph.name, at=at, remedy=remedy)
    if timeline is not None and timeline.now == 0 and timeline.moments[-1].grad is not None:
        return asked.reason("rewound", graph.name)
    if arrived(run, node, asked.tensor) is not None:
        return asked.reason("cleared", graph.name)
    if was_handed_back(graph.captured.graph, node, run):
        return asked.reason("handed back", graph.name)
    passed = f": the backward of {custom} may have returned None" if custom else ""
    return asked.reason("not reached", graph.name, custom=passed)


def _call_of_backward(graph: LossGraph) -> str:
    """Write the call that starts backward: one that torch accepts."""
    assert graph.captured is not None
    code = "loss" if graph.name == "the loss" else graph.name
    (node, nr), *others = graph.captured.roots
    outputs = graph.captured.graph.nodes[node]["outputs"]
    shape = outputs[nr]["shape"] if nr < len(outputs) else ()
    if others or shape is None or math.prod(shape) == 1:
        return f"{code}.backward()"
    return f"{code}.sum().backward(), or backward(gradient=...) with the shape {tuple(shape)}"


def _stopped_at(graph: LossGraph, run: RecordedRun) -> str:
    """Name the operation where a pass stopped: " at MulBackward0 (node 3): ValueError"."""
    captured = graph.captured
    if run.state != "stopped" or captured is None:
        return ""
    node = graph.stopped_at
    at = "" if node is None else f" at {operation(captured, node)}"
    return f"{at}: {run.error.rstrip('.')}" if run.error else at


def _not_finite(grad: torch.Tensor) -> str:
    """Say which of "NaN" and "Inf" a gradient has; empty if none."""
    if _holds(grad, finite) is not False:
        return ""
    has_nan = _holds(grad, lambda part: ~part.isnan()) is False
    has_inf = _holds(grad, lambda part: ~part.isinf()) is False
    return " and ".join(word for word, has in (("NaN", has_nan), ("Inf", has_inf)) if has)


def _holds(grad: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> bool | None:
    """Return whether every number of a gradient passes a test; None if it cannot be read."""
    if why_unreadable(grad) is not None:
        return None
    try:
        values = grad.detach().coalesce().values() if grad.is_sparse else grad
        return everywhere(values, test)
    except RuntimeError:  # on the meta device, ...
        return None
