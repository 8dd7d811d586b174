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
from .asked import Asked
from .constants_and_cuts import at_line, lost_by
from .describe_node import was_handed_back
from .loss_graph import LossGraph
from .not_in_graph import reason_outside
from .reason import Reason
from .zero_derivatives import Block, Blocks, factors_of, zero_slopes

_MOST_BLOCKS = 2
_CONVERSION = "ToCopyBackward0"
_ZERO_AT = {
    "passed": "at {}",
    "hook": "before {}, as by a hook",
    "sum": "where the contributions to {} add up",
}


def reason_of(tensor: torch.Tensor, name: str | None, graph: LossGraph | None) -> Reason:
    """Explain why the ``.grad`` of a tensor is as it is; ``graph``: None when no loss was given."""
    asked = Asked(tensor, name, graph)
    has_grad = tensor.is_leaf or tensor.retains_grad  # else torch warns when .grad is read
    grad = tensor.grad if has_grad else None
    if grad is not None:
        return _set(asked, grad)
    if not tensor.requires_grad:
        return _frozen(asked)
    if graph is None:
        return asked.reason("no loss" if has_grad else "intermediate")
    if asked.node is None:
        return reason_outside(asked)
    return _none(asked, asked.node) if has_grad else _intermediate(asked, asked.node)


def _intermediate(asked: Asked, node: int) -> Reason:
    """Explain a tensor that is not a leaf; a conversion often makes one by mistake."""
    nodes = asked.captured.graph.nodes
    leaves = [each for each in asked.captured.graph.succ[node] if nodes[each]["kind"] == "leaf"]
    if nodes[node]["op"] != _CONVERSION or not leaves:
        return asked.reason("intermediate")
    return asked.reason("converted", leaf=nodes[leaves[0]]["name"] or "a leaf without a name")


def _set(asked: Asked, grad: torch.Tensor) -> Reason:
    is_zero = _holds(grad, lambda part: part == 0)
    if is_zero:
        return _zero(asked, grad)
    odd = _not_finite(grad)
    found = _not_a_number(asked, odd) if odd else _held(asked)
    return found if is_zero is False else replace(found, is_read=False)


def _held(asked: Asked) -> Reason:
    """Explain a gradient that is finite and not zero."""
    if asked.given is None:
        return asked.reason("set")
    requires_grad = asked.tensor.requires_grad
    if not asked.is_in_graph:
        if not requires_grad:
            return asked.reason("elsewhere, frozen")
        return asked.reason("elsewhere", outside=reason_outside(asked).sentence)
    if not requires_grad:
        return asked.reason("frozen, set")
    if asked.run is not None and (asked.node is not None or asked.timeline is not None):
        effect = asked.effect()
        if effect in ("changed", "differs") and _has_ranks():
            effect = "reduced"
        return asked.reason(effect, at=_stopped_at(asked))
    if asked.inner is not None:
        return asked.reason("inner, set", op=asked.operation(asked.inner))
    return asked.reason("unrecorded")


def _has_ranks() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _not_a_number(asked: Asked, odd: str) -> Reason:
    if asked.given is None:
        return asked.reason("nan", odd=odd)
    if not asked.is_in_graph:
        return asked.reason("nan, outside", odd=odd)
    came = None if asked.came is None else asked.came.tensor
    if came is not None and not _not_finite(came):
        return asked.reason("nan, not by pass", odd=odd)
    first = asked.graph.first_nan
    if first is None:
        return asked.reason("nan", odd=odd)
    return asked.reason("nan, recorded", odd=odd, op=asked.operation(first))


def _zero(asked: Asked, grad: torch.Tensor) -> Reason:
    if asked.given is None:
        return asked.reason("zero")
    node = asked.node
    if node is None:
        if asked.inner is None:
            return asked.reason("zero, outside")
        return asked.reason("zero, inner", op=asked.operation(asked.inner))
    blocks = asked.graph.blocking.before(node)
    if blocks.found:
        return asked.reason("zero, blocked", blocks=_blocked(asked, blocks))
    custom = asked.function
    passed = f", or the backward of {custom} returned zeros" if custom else ""
    if asked.run is not None:
        cause, where = _zero_in_pass(asked, asked.run, node)
        if cause == "zero, unread" and blocks.unknown:
            cause = "zero, freed"
        return asked.reason(cause, custom=passed, where=where)
    if blocks.unknown:
        return asked.reason("zero, freed")
    # A gradient that one pass stored has version 0. Adding to it and clearing it count up.
    return asked.reason("zero, version" if version_of(grad) else "zero, unseen", custom=passed)


def _zero_in_pass(asked: Asked, run: RecordedRun, node: int) -> tuple[str, str]:
    """Return the cause of a gradient of zeros by a recorded pass, and where it became zero."""
    came = asked.came
    if asked.is_before_step and asked.timeline is not None and len(asked.timeline.moments) > 1:
        return "zero, before step", ""
    if came is None:
        return "zero, not by pass", ""
    if came.was_changed:
        return "zero, unread", ""
    if not is_zero(came):
        return "zero, overwritten", ""
    birth = asked.graph.first_zero(node)
    if birth is not None:
        where = _ZERO_AT[birth.how].format(asked.operation(birth.node))
        slopes = zero_slopes(asked.captured, run, birth)
        return "zero, recorded", f"{where}: {slopes}" if slopes else where
    roots = [run.steps[root] for root, _ in asked.captured.roots if root in run.steps]
    if roots and all(is_zero(kept) for step in roots for kept in step.grad_outputs if kept):
        return "zero, from the start", ""
    return "zero, unread", ""


def _blocked(asked: Asked, found: Blocks) -> str:
    blocks = found.found
    parts = [
        f"{asked.operation(block.node)} blocks it ({block.why.words})"
        for block in blocks[:_MOST_BLOCKS]
    ]
    rest = len(blocks) - _MOST_BLOCKS
    count = f"at least {rest}" if found.is_more else rest
    more = f", and {count} more block the other ways" if rest > 0 else ""
    ends = blocks[0].why.remedy
    waits = (name for block in blocks for name in _zero_until_step(asked.captured, block))
    if (name := next(waits, None)) is not None:
        ends = f"{name} is zero and has a gradient itself, so this ends with its first step"
        return f"{', and '.join(parts)}{more}. {ends}"
    if blocks[0].node in asked.graph.margins:
        ends = "its result is only added up, as in a loss of margins that are all kept"
    return f"{', and '.join(parts)}{more}. {ends[0].upper()}{ends[1:]}"


def _zero_until_step(captured: Annotated, block: Block) -> Iterator[str]:
    """Yield the names of the leaves whose zeros block, and that have a gradient themselves."""
    for node in factors_of(captured, block):
        leaf = leaf_tensor(captured.nodes[node])
        grad = None if leaf is None else leaf.grad
        if grad is not None and _holds(grad, lambda part: part == 0) is False:
            yield captured.graph.nodes[node]["name"] or "That factor"


def _frozen(asked: Asked) -> Reason:
    tensor = asked.tensor
    if asked.node is not None:
        return asked.reason("frozen since")
    cuts = cuts_of(tensor)
    if tensor.is_inference():
        return asked.reason("inference", at=at_line(cuts[0].where) if cuts else "")
    if cuts:
        return asked.reason("constant", lost=lost_by(cuts[0], "a tensor that requires grad"))
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return asked.reason("integer", dtype=str(tensor.dtype))
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return asked.reason("frozen parameter" if is_parameter else "frozen")


def _none(asked: Asked, node: int) -> Reason:
    """Explain why the ``.grad`` of a tensor of the graph is None."""
    graph, run, custom = asked.graph, asked.run, asked.function
    if run is None:
        passed = f", or the backward of {custom} returned None" if custom else ""
        late = "" if asked.tensor.is_leaf else ", or ran before retain_grad()"
        cause = "ran" if graph.backward_ran(node) else "waiting"
        return asked.reason(cause, custom=passed, late=late, call=_call_of_backward(asked))
    if run.state == "stopped":
        return asked.reason("stopped", at=_stopped_at(asked), remedy=graph.remedy)
    timeline = asked.timeline
    if timeline is not None and asked.is_before_step and timeline.moments[-1].grad is not None:
        return asked.reason("rewound")
    if asked.came is not None:
        return asked.reason("cleared")
    if was_handed_back(asked.captured.graph, node, run):
        return asked.reason("handed back")
    passed = f": the backward of {custom} may have returned None" if custom else ""
    return asked.reason("not reached", custom=passed)


def _call_of_backward(asked: Asked) -> str:
    """Write the call that starts backward: one that torch accepts."""
    captured, name = asked.captured, asked.graph.name
    code = "loss" if name == "the loss" else name
    (node, nr), *others = captured.roots
    outputs = captured.graph.nodes[node]["outputs"]
    shape = outputs[nr]["shape"] if nr < len(outputs) else ()
    if others or shape is None or math.prod(shape) == 1:
        return f"{code}.backward()"
    return f"{code}.sum().backward(), or backward(gradient=...) with the shape {tuple(shape)}"


def _stopped_at(asked: Asked) -> str:
    """Name the operation where a pass stopped: " at MulBackward0 (node 3): ValueError"."""
    run = asked.run
    if run is None or run.state != "stopped":
        return ""
    node = asked.graph.stopped_at
    at = "" if node is None else f" at {asked.operation(node)}"
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
