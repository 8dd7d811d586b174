"""Sentences that describe a node, its work between ranks, and why it has no gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

from ..backward.recorded_run import RecordedRun
from ..backward.run_backward import missing_gradient
from ..english import join_words, list_some, plural
from ..graph.capture import Capture
from ..graph.index_signs import INTO, index_sign
from ..lazily import nx
from ..schema.values import NodeState
from ..torch_api.compiled import (
    CannotOpenError,
    calls_in,
    compiled_backward,
    is_recomputed,
)
from ..torch_api.distributed import (
    Bucket,
    Crossing,
    Placed,
    Sharded,
    collective,
    crossing,
    is_sink,
    placed,
    reducing,
)
from ..torch_api.nodes import custom_function, is_compiled
from ..torch_api.signatures import signature
from ..tracing.annotate import Annotated
from ..tracing.double_backward import Derivative
from .constants_and_cuts import at_line

_MOST_NAMED = 6  # parameters of a group

_CROSSINGS = {
    "to local": "to_local() took out this rank's part of a tensor that is shared out over the "
    "ranks, placed as {}. ",
    "from local": "from_local() made a tensor that is shared out over the ranks, placed as {}, of "
    "what each rank had. ",
    "redistribute": "Redistributes a tensor that is shared out over the ranks: in forward it was "
    "placed as {}, and was then placed otherwise. ",
}


def about_ranks(node: Node, arrived: torch.Tensor | None) -> str | None:
    """Describe what a node does with the gradients of other ranks; None if it does nothing."""
    group = reducing(node)
    if group is not None:
        return _about_reducing(list(group.names), group.ranks)
    if is_sink(node):
        return (
            "DistributedDataParallel put this node at the output of its module, to learn when "
            "backward begins. What arrives is passed on as it is."
        )
    came = placed(arrived)
    found = crossing(node, came)
    return None if found is None else _about_crossing(found, came)


def about_sharded(sharded: Sharded) -> str:
    """Describe what FSDP2 does with a parameter."""
    over = "" if sharded.ranks is None else f" from {plural(sharded.ranks, 'rank')}"
    again = "" if sharded.is_freed_between is not True else ", and again for backward"
    return (
        f"FSDP2 gathered it, {sharded.full} in full,{over} for forward{again}; of it this rank "
        f"holds {sharded.part}."
    )


def about_bucket(bucket: Bucket) -> str:
    """In which bucket DistributedDataParallel reduces a gradient, and when it was ready."""
    when = []
    if bucket.number is not None:
        alone = "alone in it" if bucket.parameters == 1 else f"{bucket.parameters} parameters"
        when.append(
            f"reduced in bucket {bucket.number + 1} of {bucket.count} ({bucket.nbytes:,} bytes, "
            f"{alone})"
        )
    if bucket.ready is not None:
        when.append(f"ready as number {bucket.ready + 1} of {bucket.total}")
    if not when:
        return "DistributedDataParallel reduces its gradient."
    return (
        f"By the log of DistributedDataParallel its gradient is {' and '.join(when)}; torch writes "
        "that log when a forward pass begins, so it is of the passes before."
    )


def _about_crossing(found: Crossing, came: Placed | None) -> str:
    start = _CROSSINGS[found.way].format(f"{found.forward.words} on {_mesh(found.forward)}")
    if found.way == "to local":
        if found.backward is None:
            return f"{start}Backward makes such a tensor of the gradient of this rank's part."
        return (
            f"{start}Backward takes the gradient on each rank for its part of one placed as "
            f"{found.backward.words}, and sends nothing."
        )
    is_local = found.way == "from local"
    goal = "passes on this rank's part of the gradient" if is_local else "places the gradient"
    if found.backward is None:
        so = (
            " so again, but for partial sums (P), which a gradient that is there as a whole does "
            "not become"
        )
        return f"{start}Backward {goal}{'' if is_local else so}."
    end = f"Backward {goal}{', placed' if is_local else ''} as {found.backward.words}"
    if came is None:
        return f"{start}{end}; what is sent for that depends on how it arrives."
    done = collective(came, found.backward)
    if done is None:
        return f"{start}{end}. It arrived placed as {came.words}."
    article = "an" if done.startswith("all") else "a"
    sent = f": {article} {done}" if done else ", for which nothing is sent"
    return f"{start}{end}. It arrived placed as {came.words}{sent}."


def _about_reducing(names: list[str], ranks: int | None) -> str:
    over = "the ranks" if ranks is None else plural(ranks, "rank")
    return (
        "FSDP2 put this node at the inputs of a module. When backward gets here, it reduces the "
        f"gradients of {list_some(names, _MOST_NAMED)} over {over}, each of which keeps its part "
        "(a reduce-scatter), unless set_requires_gradient_sync(False) puts that off. What arrives "
        "is passed on as it is. A module whose inputs need no grad has no such node: there FSDP2 "
        "reduces when the whole pass ends."
    )


def _mesh(found: Placed) -> str:
    sizes = [(name, plural(size, "rank")) for name, size in found.mesh]
    axes = [f"{name} ({ranks})" if name else ranks for name, ranks in sizes]
    return f"a mesh of {' × '.join(axes)}"


_NOTHING_SEEN = (
    "No backward pass through this graph has been seen yet: the gradient appears here when one "
    "runs after the widget was made."
)
WAITS = "At this step of backward it waits: not all its gradients have arrived."
READY = "At this step of backward all its gradients have arrived, but it has not run yet."

_HOW_TO_NAME = " It has no name here: names={'w': w} or names=model gives it one."
_MOST_TIED = 4  # names
_MOST_DERIVATIVES = 4


def what_is(data: dict[str, Any], node: Node, arrived: torch.Tensor | None = None) -> str:
    """Describe a node in one or two sentences."""
    if data["kind"] == "leaf":
        name = data["name"] or "This tensor"
        grad = f"{name}.grad" if data["name"] else "its .grad"
        return (
            f"{name} is a leaf: a tensor the program made, not the result of a recorded operation. "
            "Its AccumulateGrad node adds every gradient that arrives to "
            f"{grad}, which keeps adding up over several backward passes until zero_grad() clears "
            f"it.{'' if data['name'] else _HOW_TO_NAME}"
        )
    if is_compiled(node):
        return _about_compiled(node)
    custom = custom_function(node)
    if custom is not None:
        between = about_ranks(node, arrived)
        if between is not None:
            return between
        return (
            f"The backward of the custom autograd.Function {custom.__name__}: it calls "
            f"{custom.__name__}.backward with the gradient of what forward returned."
        )
    if data["op"] == "NotImplemented":
        return "torch has no derivative of the operation that ran here: backward raises an error."
    found = signature(data["op"])
    if found is None:
        return "A step of backward that torch defines by hand."
    operation = found.forward.split("(")[0].split(".")[0]
    arguments = [argument.name for argument in found.arguments]
    free = {place["argument"] for place in data.get("no_grad_inputs", ())}
    none = [argument for argument in arguments if argument in free]
    into = join_words([argument for argument in arguments if argument not in free] or arguments)
    rest = f" ({join_words(none)} need{'s' * (len(none) == 1)} none)" if none else ""
    return (
        f"The backward of {operation}: it takes the gradient of what {operation} returned and "
        f"computes from it the gradient of {into}{rest}.{_about_digit(data['op'], found.forward)}"
        f"{_about_places(data['op'], node, operation)}"
    )


def _about_compiled(node: Node) -> str:
    made = "A program that torch.compile made, as one node."
    try:
        compiled_backward(node)
    except CannotOpenError as why:
        return f"{made} It cannot be opened: {why}"
    calls = calls_in(node)
    again = sum(map(is_recomputed, calls))
    some = f", {again} of them calls of the forward pass that run again" if again else ""
    return (
        f"{made} Its backward is {plural(len(calls), 'call')}{some}. A double click, "
        "or expand() of the widget, shows them in its place: the backward program as it was before "
        "the backend (such as Inductor) fused it."
    )


def about_tied(names: Sequence[str]) -> str:
    """Describe a tensor that a module holds in several places: "emb.weight = head.weight: ..."."""
    rest = len(names) - _MOST_TIED
    more = f" = {rest} more" if rest > 0 else ""
    return f"{' = '.join(names[:_MOST_TIED])}{more}: one tensor, in several places of a module."


def about_derivatives(captured: Annotated) -> dict[int, str]:
    """Describe, by node, its part in derivatives that the program computed."""
    if not captured.derivatives:
        return {}
    nodes = captured.graph.nodes
    own: dict[int, list[str]] = {}
    ways: dict[int, dict[str, None]] = {}
    for found in captured.derivatives:
        own.setdefault(found.node, []).append(_is_derivative(found, nodes[found.node]))
        for node in found.of:
            way = f"with respect to {found.by_words} is {found.words}"
            ways.setdefault(node, {})[way] = None
    sentences = {node: _first(each, "It gave {} derivatives.") for node, each in own.items()}
    for node, each in ways.items():
        called = nodes[node]["name"] or "what it gave"
        sentence = f"The derivative of {called} {', '.join(_first(list(each), 'there are {}'))}."
        sentences[node] = [*sentences.get(node, []), sentence]
    return {node: " ".join(each) for node, each in sentences.items()}


def _first(each: list[str], rest: str) -> list[str]:
    """Return the first few, and how many more there are."""
    more = len(each) - _MOST_DERIVATIVES
    return [*each[:_MOST_DERIVATIVES], *([rest.format(f"{more} more")] if more > 0 else [])]


def _is_derivative(found: Derivative, data: dict[str, Any]) -> str:
    of = f"{'the sum of ' * (len(found.of_words) > 1)}{join_words(found.of_words)}"
    outputs = data["outputs"]
    name = outputs[found.output_nr]["name"] if found.output_nr < len(outputs) else None
    what = name or (f"Its output {found.output_nr}" if len(outputs) > 1 else "Its output")
    weighted = f", weighted by the {found.weights} that it was given" if found.weights else ""
    return (
        f"{what} is the derivative of {of} with respect to {found.by_words}: {found.called} "
        f"computed it{at_line(found.where, text=True)}{weighted}."
    )


def reduced_part(sharded: Sharded) -> str:
    """Describe the ``.grad`` of a sharded parameter."""
    return (
        f"This rank's part, {sharded.part} of {sharded.full}, of the gradient that "
        "FSDP2 reduced over the ranks. What arrived at the leaf is this rank's own, before that."
    )


def not_reduced(sharded: Sharded, run: RecordedRun | None) -> str:
    """Say why a sharded parameter has no ``.grad``."""
    if run is None:
        return _NOTHING_SEEN
    return (
        f"FSDP2 takes the gradient of the gathered tensor away, and adds this rank's part of the "
        f"reduced one, {sharded.part}, to the .grad of the parameter. There is none: it "
        "has been cleared since, or reducing was switched off by set_requires_gradient_sync(False)."
    )


def _about_digit(op: str, forward: str) -> str:
    """Explain the number in a name such as SumBackward1."""
    digit = op.rpartition("Backward")[2]
    if not digit.isdigit() or digit == "0":
        return ""
    return (
        f" The {digit} in {op} numbers the overload ({forward.partition('(')[0]}); it is not a "
        "depth or an order."
    )


def _about_places(op: str, node: Node, operation: str) -> str:
    """Explain the sign "put at [0]" of an operation."""
    sign = index_sign(op, node) or ""
    if not sign.startswith(INTO):
        return ""
    return f" {operation} made zeros and wrote its input to {sign.removeprefix(INTO)} of them."


def no_grad(
    graph: nx.MultiDiGraph,
    node_id: int,
    tensor: torch.Tensor | None,
    run: RecordedRun | None,
    state: NodeState,
) -> str:
    """Say why the ``.grad`` of a node's tensor is None; ``tensor``: None when it is not at hand."""
    data = graph.nodes[node_id]
    name = data["name"] or ("this leaf" if data["kind"] == "leaf" else "this tensor")
    if data["kind"] == "op":
        if tensor is not None and tensor.retains_grad:
            return f"{name} keeps its gradient, as retain_grad() asked. {no_flow(run, state)}"
        is_variable = all(part.isidentifier() for part in (data["name"] or "").split("."))
        call = f"{data['name']}.retain_grad()" if is_variable else "retain_grad() on it"
        return (
            f"Not a leaf, so torch drops the gradient of {name} once it has been used: "
            f"call {call} before backward() to keep it in .grad."
        )
    if tensor is not None and not tensor.requires_grad:
        return f"requires_grad of {name} has been turned off since the graph was recorded."
    if run is None or run.is_unseen or state in {"waiting", "ready"}:
        return no_flow(run, state)
    if node_id not in run.steps:
        if was_handed_back(graph, node_id, run):
            return (
                f"The last backward pass computed a gradient for {name} but did not accumulate it: "
                "torch.autograd.grad returns gradients and leaves .grad alone."
            )
        return f"The last backward pass did not reach {name}, so nothing was added to its .grad."
    if run.steps[node_id].grad_outputs == [None]:
        return f"The gradient that arrived at {name} was None, so torch added nothing to its .grad."
    return (
        f"The last backward pass did add a gradient to {name}.grad, but it has been cleared since, "
        "for example by zero_grad()."
    )


def no_flow(run: RecordedRun | None, state: NodeState) -> str:
    """Say why no gradient is known to have flowed into a node."""
    if run is None:
        return _NOTHING_SEEN
    if run.is_unseen:
        return "No step of the last backward pass was seen."
    if state == "waiting":
        return WAITS
    if state == "ready":
        return READY
    if run.state == "stopped":
        return "The last backward pass stopped with an error before this node ran."
    return "The last backward pass did not reach this node."


def nothing_passed_on(data: dict[str, Any], run: RecordedRun | None, state: NodeState) -> str:
    """Say why a node passed no gradient on."""
    if data["kind"] == "leaf":
        return "A leaf is where gradients end: it adds them to .grad and passes nothing on."
    if state in {"running", "done"}:
        return "None of this node's inputs requires grad, so it passed nothing on."
    return no_flow(run, state)


def was_handed_back(graph: nx.MultiDiGraph, node_id: int, run: RecordedRun) -> bool:
    """Whether a consumer passed a gradient to a node that then did not run."""
    edges = graph.in_edges(node_id, data=True)
    passed = [(run.steps.get(consumer), edge["arg_nr"]) for consumer, _, edge in edges]
    is_passed = any(step and step.grad_inputs[number] is not None for step, number in passed)
    return node_id not in run.steps and is_passed


def blocked(captured: Capture) -> str | None:
    """Say why backward needs ``gradient=`` to start; None if it does not."""
    missing = (missing_gradient(captured, *root) for root in captured.graph.graph["roots"])
    return next(filter(None, missing), None)


def failure(error: BaseException) -> str:
    """Return an exception with its notes as text."""
    text = str(error).strip()
    notes = getattr(error, "__notes__", [])
    return " ".join([f"{type(error).__name__}: {text}" if text else type(error).__name__, *notes])
