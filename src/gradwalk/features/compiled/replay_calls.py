"""The numbers inside of a compiled node: its backward program, run on what flowed into it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node as AutogradNode
from torch.fx import Node
from torch.fx.node import map_arg

from ...backward.kept_gradients import GradientStore, KeptGradient
from ...backward.recorded_run import Step
from ...sources.inner_graph import Inner, InsideNumbers
from ...torch_api.compiled import (
    CannotOpenError,
    CompiledBackward,
    is_call,
    program_arguments,
    without_autocast,
)
from ...torch_api.signatures import Operator, schema_of
from ...torch_api.tensors import version_of

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
"""How far, relative to its norm, a gradient may be from the one that flowed."""
_OF_NARROW = 5e-2


def run_inside(
    backward: CompiledBackward,
    inner: Mapping[Node, Inner],
    node: AutogradNode,
    max_bytes: int,
    step: Step,
) -> InsideNumbers:
    """Run the backward program of a compiled node once more, call by call.

    No ``.grad``, no random state and no saved tensor changes. A program of which that is not
    certain is not run.

    Args:
        backward: The program.
        inner: What its nodes are drawn as.
        node: The compiled node.
        max_bytes: Of large tensors to keep; beyond that only statistics are kept.
        step: What flowed through the node in the pass that is shown.

    Raises:
        CannotOpenError: Why it cannot run, or that it ends in other gradients than flowed.
    """
    for call in backward.graph.nodes:
        _check(call)
    arrived = [_tensor(kept) for kept in step.grad_outputs]
    with torch.no_grad(), without_autocast():
        arguments = program_arguments(node, backward, arrived)
        keeper = GradientStore(max_bytes)
        given: dict[Inner, list[KeptGradient | None]] = {}
        results: dict[Node, Any] = {}
        ends = set(backward.gradients.values())
        for call, value in _run(backward, arguments):
            if call in inner and is_call(call):
                parts = value if isinstance(value, (tuple, list)) else [value]
                given[inner[call]] = [_keep(keeper, each) for each in parts]
            if call in ends:
                results[call] = value
        gap = _gap(backward, results, step)
    how = (
        "Known by running the backward program once more, call by call, on the gradient that "
        "arrived in this pass. "
    )
    if gap == 0:
        return InsideNumbers(given, f"{how}It ends in exactly the gradients that flowed out.")
    return InsideNumbers(
        given,
        f"{how}It ends within {gap:.1e} (relative) of the gradients that flowed out, because the "
        "backend fuses calls and rounds elsewhere.",
    )


def _tensor(kept: KeptGradient | None) -> torch.Tensor | None:
    if kept is None:
        return None
    if kept.tensor is None:
        raise CannotOpenError(
            "The gradient that arrived at this node was not kept (it exceeds max_bytes, or was "
            "changed in place since), so the gradients inside are not known."
        )
    return kept.tensor


def _check(call: Node) -> None:
    """Refuse a call that may do more than work out its result."""
    target: Any = call.target
    if call.op in ("placeholder", "output", "get_attr"):
        return
    module = getattr(target, "__module__", "")
    if not isinstance(target, Operator):
        if call.op == "call_function" and module in ("_operator", "math", "builtins"):
            return
        raise CannotOpenError(
            f"The backward program has a call that is no plain operation of torch's ({target}), "
            "so it is not run a second time to see the gradients inside."
        )
    name = str(target)
    if torch.Tag.nondeterministic_seeded in target.tags or "inductor_seed" in name:
        raise CannotOpenError(
            f"The backward program draws random numbers ({name}). A second run would draw others, "
            "and change the random state, so the gradients inside are not known."
        )
    if schema_of(target).is_mutable or "c10d" in name:
        raise CannotOpenError(
            f"The backward program does more than work out gradients ({name} changes a tensor or "
            "talks to other processes), so it is not run a second time to see those inside."
        )


def _run(backward: CompiledBackward, arguments: Sequence[Any]) -> Iterator[tuple[Node, Any]]:
    """Each node of a program and what it gives, in order; what is not needed again is let go."""
    module = backward.module
    last: dict[Node, Node] = {}
    for node in backward.graph.nodes:
        for used in node.all_input_nodes:
            last[used] = node
    ending: dict[Node, list[Node]] = {}
    for used, user in last.items():
        ending.setdefault(user, []).append(used)
    values: dict[Node, Any] = {}
    given = iter(arguments)
    for node in backward.graph.nodes:
        if node.op == "output":
            return
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = operator.attrgetter(str(node.target))(module)
        else:
            target: Any = node.target
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = target(*args, **kwargs)
        yield node, values[node]
        for used in ending.get(node, ()):
            del values[used]


def _keep(keeper: GradientStore, value: Any) -> KeptGradient | None:
    if not isinstance(value, torch.Tensor):
        return None
    keeper.begin_step()
    return keeper.keep(value, version_of(value), is_large_leafs=False)


def _gap(backward: CompiledBackward, results: dict[Node, Any], step: Step) -> float:
    """How far the results are from what flowed, relative to its norm.

    Raises:
        CannotOpenError: They are others.
    """
    widest = 0.0
    for nr, end in backward.gradients.items():
        kept = step.grad_inputs[nr]
        flowed = None if kept is None else kept.tensor
        found = results.get(end)
        if flowed is None or not isinstance(found, torch.Tensor) or found.shape != flowed.shape:
            continue
        if torch.equal(found, flowed):
            continue
        wide = flowed.to(torch.float64 if not flowed.is_complex() else torch.complex128)
        away = float((found.to(wide.dtype) - wide).norm())
        gap = away / (float(wide.norm()) or 1.0)
        if not gap <= _TOLERANCE.get(flowed.dtype, _OF_NARROW):
            raise CannotOpenError(
                "Running the backward program once more ends in other gradients than flowed (off "
                f"by {gap:.1e} of their norm): a hook changed them, what it reads has changed, or "
                "the backend computes something else. So the gradients inside are not shown."
            )
        widest = max(widest, gap)
    return widest
