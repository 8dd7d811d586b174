"""Findings about gradients that are exactly zero, and ReLUs whose units are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from ..backward.failures import FirstZero, first_zeros, is_zero
from ..backward.recorded_run import RecordedRun
from ..english import list_some, plural
from ..explain.zero_derivatives import Block, factors_of, zero_slopes
from ..graph.capture import Capture
from ..result import make
from ..schema.findings import Severity
from ..torch_api.nodes import custom_function, leaf_tensor
from ..torch_api.reading import distinct, everywhere, is_plain, overlaps_too_much
from ..torch_api.saved_tensors import read_saved
from .context import CheckContext
from .finding import Finding

_MASKED = frozenset({"MulBackward0", "DivBackward0", "NativeDropoutBackward0"})
_LEAST_OF_HALF = 3e-8  # what is smaller becomes zero


def zero_findings(context: CheckContext) -> Iterator[Finding]:
    """Find leaves whose gradient is exactly zero, by the operation that blocks it."""
    run = context.run
    if run is None:
        lengths = _stored(context)
        zero = [node for node, norm in lengths.items() if norm == 0]
    else:
        lengths = {node: norm for node, (_, norm) in context.arrived.items()}
        zero = [
            node
            for node, (kept, norm) in context.arrived.items()
            if norm == 0 and is_zero(kept) and not _is_empty(context, node)
        ]
    if not zero:
        return
    all_zero = len(zero) == len(lengths) > 1
    found = context.loss.blocking.leaves(zero)
    dead = {node for node, off, units in dead_units(context.captured, run) if off == units}
    groups: dict[tuple[str, str], list[tuple[Block, list[int], str | None]]] = defaultdict(list)
    for block, nodes in found.by_block:
        if dead and not dead.isdisjoint((block.node, *factors_of(context.captured, block))):
            continue  # the finding about that ReLU says it
        waits = _waits(context, block, lengths)
        alike = "waits" if waits else context.captured.graph.nodes[block.node]["op"]
        groups[alike, "" if waits else block.why.because].append((block, nodes, waits))
    for group in groups.values():
        block, _, waits = group[0]
        more = len(group) - 1
        like = f", and so do {plural(more, 'like operation')}" if more else ""
        ends, is_noted = _outlook(context, [each for each, _, _ in group], waits, all_zero)
        nodes = [node for _, nodes, _ in group for node in nodes]
        severity: Severity = "info" if is_noted else "warning"
        start = ends[0] if waits else ends[0].upper()  # a name stays
        why = f"{context.place(block.node)} blocks it ({block.why.words}){like}. {start}{ends[1:]}."
        why = _impossible_labels(context, block.node) or why
        zeros = [n for n in factors_of(context.captured, block) if context.leaf(n) is not None]
        if zeros and not waits and severity == "warning":
            why = (
                f"{context.place(block.node)} multiplies by {context.name(zeros[0])}, which is "
                "zero everywhere. Initialise it at random, as torch's layers do."
            )
        yield _zero_finding(context, nodes, severity, why)
    # A `.grad` that is zero for no reason in the graph may have been cleared.
    if found.rest and run is not None:
        severity = "warning" if all_zero else "info"
        yield from _measured(context, run, found.rest, severity, unknown=found.unknown)


def _impossible_labels(context: CheckContext, node: int) -> str:
    """Why `ctc_loss` gives zeros where no label sequence fits; empty where it does not."""
    graph = context.captured.graph
    if graph.nodes[node]["op"] != "WhereBackward0":
        return ""
    for child in graph.succ[node]:
        if graph.nodes[child]["op"] != "CtcLossBackward0":
            continue
        saved = context.saved(child)
        losses = saved.get("result0")
        if losses is None or everywhere(losses, lambda part: part.isinf()) is not True:
            continue
        labels, frames = saved.get("target_lengths"), saved.get("input_lengths")
        lengths = ""
        if labels and frames:
            lengths = f" (up to {max(labels)} labels in {max(frames)} frames)"
        return (
            f"ctc_loss(){context.at(child)} is infinite for all "
            f"{plural(losses.numel(), 'sequence')}{lengths}, and "
            "zero_infinity makes it zero. A sequence needs a frame for each label, and one more "
            "between equal labels."
        )
    return ""


def _outlook(
    context: CheckContext, blocks: list[Block], waits: str | None, all_zero: bool
) -> tuple[str, bool]:
    """Return the next event where like operations block, or an advice, and whether it is a note."""
    block = blocks[0]
    if waits:
        return f"{waits} gets a gradient itself, so this ends with its first step", True
    drawn = {_is_drawn(context, each) for each in blocks}
    if drawn == {True} or (False not in drawn and not all_zero):
        drops = "a random mask, as of dropout or stochastic depth: the next one differs"
        return (f"if that is {drops}" if None in drawn else f"it may be {drops}"), True
    if block.why.is_weight and not all_zero:
        return "a term with the weight 0 adds nothing to the gradients of this pass", True
    if block.node in context.loss.margins:
        return "its result is only summed, as in a hinge loss whose margins are all kept", True
    return block.why.remedy, not (block.why.by_rule or all_zero)


def _stored(context: CheckContext) -> dict[int, float | None]:
    """Each leaf with numbers in its ``.grad`` -> 0 if all are zero, else 1."""
    grads = {
        node: tensor.grad
        for node in context.leaves.values()
        if (tensor := leaf_tensor(context.captured.nodes[node])) is not None
    }
    zeros = {
        node: everywhere(grad, lambda part: part == 0)
        for node, grad in grads.items()
        if grad is not None
    }
    return {node: 1.0 - known for node, known in zeros.items() if known is not None}


def _measured(
    context: CheckContext, run: RecordedRun, rest: list[int], severity: Severity, *, unknown: bool
) -> Iterator[Finding]:
    """Of leaves that nothing known blocks, where the pass shows that gradients became zero."""
    births = first_zeros(context.captured, run, rest)
    groups: dict[tuple[str, int] | None, list[int]] = defaultdict(list)
    for node in rest:
        birth = births.get(node)
        groups[None if birth is None else (birth.how, birth.node)].append(node)
    not_shown = "the recorded gradients do not show where it became zero"
    if unknown:
        not_shown = (
            "saved tensors on the way were freed or packed by a hook, so the operation that blocks "
            "it is unknown"
        )
    for key, nodes in groups.items():
        why = not_shown if key is None else _born(context, births[nodes[0]])
        yield _zero_finding(context, nodes, severity, f"{why}.")


def _born(context: CheckContext, birth: FirstZero) -> str:
    """Where a gradient became zero, in words for after a colon."""
    words = context.place(birth.node)
    came = "a gradient" if not birth.norm else f"a gradient of norm {birth.norm:.3g}"
    if birth.how == "sum":
        return f"the contributions that {words} received add up to zero"
    if birth.how == "hook" and birth.sender is not None:
        watched = context.run is not None and context.run.seeds is None
        also = " or a gradient from outside of this graph" if watched else ""
        return (
            f"{context.words(birth.sender)} passed on {came}, and zeros arrived at {words}. "
            f"A hook between them{also} made them zero"
        )
    towards = birth.node if birth.towards is None else birth.towards
    start = f"{words} received {came} and gave {context.words(towards)} zeros"
    custom = custom_function(context.captured.nodes[birth.node])
    if custom is not None and custom.__name__ == "BackwardHookFunction":
        return f"{start}. A backward hook of a module made them zero"
    if custom is not None:
        return f"{start}. The backward of {custom.__name__} made them zero"
    if _is_empty(context, towards):
        return f"{words} took an empty tensor, as of a mask that selects nothing"
    slopes = None if context.run is None else zero_slopes(context.captured, context.run, birth)
    if slopes is not None:
        return f"{start}, because {slopes}"
    seen = context.captured.annotations.get(birth.node)
    is_product = context.captured.graph.nodes[birth.node]["op"] == "MulBackward0"
    constants = seen.constants if seen is not None and is_product else ()
    if any(isinstance(each.values, (int, float)) and not each.values for each in constants):
        return f"{start}, because it multiplies by 0"
    is_half = context.captured.graph.nodes[birth.node]["dtype"] == "torch.float16"
    if is_half and birth.norm and birth.norm < 1e4 * _LEAST_OF_HALF:
        least = f"float16 rounds what is below {_LEAST_OF_HALF:g} to 0 (inferred)"
        return f"{start}: {least}. {_wider(context)}"
    return (
        f"{start}. Its parts cancel out, a factor was zero, or the derivative is zero at its input"
    )


def _wider(context: CheckContext) -> str:
    """What helps against an underflow: a GradScaler refuses gradients of float16 parameters."""
    leaves = map(context.leaf, context.leaves.values())
    if any(leaf is not None and leaf.dtype is torch.float16 for leaf in leaves):
        return "Use bfloat16, or parameters in float32 with autocast and a torch.amp.GradScaler"
    return "Scale the loss with a torch.amp.GradScaler, or use bfloat16"


def _is_empty(context: CheckContext, node: int) -> bool:
    return 0 in (context.captured.graph.nodes[node]["shape"] or ())


def _zero_finding(context: CheckContext, nodes: list[int], severity: Severity, why: str) -> Finding:
    names = [context.name(node) for node in nodes]
    message = (
        f"The gradient of {list_some(names)} is exactly zero ({len(nodes)} of "
        f"{plural(len(context.leaves), 'leaf', 'leaves')}): {why}"
    )
    return make(Finding, "zero", severity, nodes, message, {"parameters": len(nodes)})


def _waits(context: CheckContext, block: Block, lengths: dict[int, float | None]) -> str | None:
    """The zero parameter that blocks only until its own first step; None for no such one."""
    found = (each for each in factors_of(context.captured, block) if lengths.get(each))
    return next((context.name(each) for each in found), None)


def _is_drawn(context: CheckContext, block: Block) -> bool | None:
    """Whether the zeros that block are of a random mask; None if unknown."""
    if block.why.factor is None or context.captured.graph.nodes[block.node]["op"] not in _MASKED:
        return False
    seen = context.captured.annotations.get(block.node)
    if seen is None:
        given = context.captured.successors[block.node].values()
        known = [e["argument"] == block.why.factor for edges in given for e in edges.values()]
        return False if block.why.is_weight or any(known) else None
    origins = [each.origin for each in seen.constants if each.tensor is not None]
    is_dropout = seen.forward is not None and "dropout" in seen.forward
    return is_dropout or any(each is not None and each.is_random for each in origins)


def dead_units(captured: Capture, run: RecordedRun | None) -> Iterator[tuple[int, int, int]]:
    """Count the units of each ReLU that are zero for every example.

    A unit is a channel, the second dimension, of a tensor with more than three dimensions; else an
    entry of the last one. The saved tensor is read; without it, the incoming and outgoing
    gradients.
    """
    relus = [node for node, op in captured.graph.nodes(data="op") if op == "ReluBackward0"]
    for node in relus:
        zero = _by_result(captured, node)
        if zero is None and run is not None:
            zero = _by_gradient(run, node)
        if zero is not None and zero.numel():
            yield node, int(zero.sum()), zero.numel()


def _by_result(captured: Capture, node: int) -> torch.Tensor | None:
    for saved in read_saved(captured.nodes[node]):
        value = saved.value
        if saved.name == "result" and isinstance(value, torch.Tensor):
            ends = _ends(value)
            return None if ends is None else ends[1] <= 0
    return None


def _by_gradient(run: RecordedRun, node: int) -> torch.Tensor | None:
    step = run.steps.get(node)
    if step is None or not step.grad_inputs or not step.grad_outputs:
        return None
    came, went = step.grad_outputs[0], step.grad_inputs[0]
    if came is None or went is None or came.tensor is None or went.tensor is None:
        return None
    arriving, passed = _ends(came.tensor), _ends(went.tensor)
    if arriving is None or passed is None:
        return None
    arrived = ~_are_zero(*arriving)
    return (_are_zero(*passed) & arrived)[arrived]


def _are_zero(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return (low == 0) & (high == 0)


def _ends(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The lowest and the highest value of each unit; None where they cannot be read."""
    if not is_plain(tensor) or not tensor.numel():
        return None
    with torch.no_grad():
        once, _ = distinct(tensor.detach())
        if overlaps_too_much(once):
            return None
        if once.dim() == 0:
            return once.reshape(1), once.reshape(1)
        unit = 1 if once.dim() > 3 else once.dim() - 1
        units = tensor.shape[unit]
        others = [dim for dim in range(once.dim()) if dim != unit]
        low, high = (once.amin(others), once.amax(others)) if others else (once, once)
        return low.expand(units), high.expand(units)
