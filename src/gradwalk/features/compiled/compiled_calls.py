"""The inside of a compiled node: the calls of its backward program."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node as AutogradNode
from torch.fx import Node
from torch.fx.node import map_arg

from ...backward.kept_gradients import GradientStore, KeptGradient
from ...backward.recorded_run import Step
from ...graph.capture import Capture
from ...graph.names import common_ancestor
from ...sources.inner_graph import Flow, Inner, Inside, InsideNumbers, names_of_inputs
from ...static.fx_graph import ProgramSource, describe, operands, source_line
from ...torch_api.compiled import (
    CannotOpenError,
    CompiledBackward,
    adds_gradients,
    compiled_backward,
    gives_tensors,
    is_call,
    is_recomputed,
    program_arguments,
    without_autocast,
)
from ...torch_api.nodes import is_compiled
from ...torch_api.reading import version_of
from ...torch_api.signatures import Operator, schema_of

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

    No ``.grad``, no random state and no saved tensor changes. A program that may change one is
    not run.
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
        unwritten: set[Node] = set()
        for call, value in _run(backward, arguments):
            if _is_unwritten(call, unwritten):
                unwritten.add(call)
            elif call in inner and is_call(call):
                parts = value if isinstance(value, (tuple, list)) else [value]
                given[inner[call]] = [_keep(keeper, each) for each in parts]
            if call in ends:
                results[call] = value
        gap = _gap(backward, results, step)
    how = (
        "Known by running the backward program once more, call by call, on the gradient that "
        "arrived in this pass. "
    )
    end = "It ends in exactly the gradients that flowed out."
    if gap:
        end = (
            f"It ends within {gap:.1e} (relative) of the gradients that flowed out, because the "
            "backend fuses calls and rounds elsewhere."
        )
    return InsideNumbers(given, how + end)


def _is_unwritten(call: Node, unwritten: set[Node]) -> bool:
    """Whether a result may hold memory that nothing has been written to."""
    target: Any = call.target
    if not isinstance(target, Operator):
        return target is operator.getitem and not unwritten.isdisjoint(call.all_input_nodes)
    name = str(target).split(".")[1]
    if name.removeprefix("new_").startswith("empty"):
        return True
    keeps = target.is_view or name.endswith("_scatter") or name in ("clone", "_to_copy")
    return keeps and not unwritten.isdisjoint(call.all_input_nodes)


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
    """Raise CannotOpenError for a call that may do more than compute its result."""
    target: Any = call.target
    if call.op in ("placeholder", "output", "get_attr"):
        return
    module = getattr(target, "__module__", "")
    if not isinstance(target, Operator):
        if call.op == "call_function" and module in ("_operator", "math", "builtins"):
            return
        raise CannotOpenError(
            f"The backward program calls {target}, which is not an operation of torch. So it does "
            "not run a second time to show the gradients inside."
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
    """Yield each node of a program and its result; release results after their last use."""
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
    return keeper.keep(value, version_of(value), in_large_leaf=False)


def _gap(backward: CompiledBackward, results: dict[Node, Any], step: Step) -> float:
    """Return the distance of the results from the recorded gradients, relative to their norm."""
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


MADE_BY = "torch.compile"

_BEFORE_FUSION = "It is a call of the backward program as it was before the backend fused it."
_RECOMPUTED = (
    "Recomputed: a call of the forward pass that runs in backward, so that what it gives need not "
    "be saved. No gradient flows through it."
)
_FORGOTTEN = (
    "Its shape, module and line are unknown: torch discarded them after the first backward. Make "
    "the widget before that backward to keep them."
)
_ON_SAVED = "It works on what the forward pass saved alone: no gradient flows through it."


def compiled_inside(captured: Capture, node: int, max_bytes: int) -> Inside:
    """Read the inside of a compiled node."""
    behind = captured.nodes[node]
    backward = compiled_backward(behind)
    graph = backward.graph
    calls = [each for each in graph.nodes if is_call(each)]
    taken: list[tuple[Node, int, Node, int, str | None]] = []
    carrying = set(backward.tangents)
    for call in calls:
        for place, (argument, value) in enumerate(operands(call, backward.module)):
            if isinstance(value, Node) and gives_tensors(value):
                made, part = _made(value)
                taken.append((made, part, call, place, argument))
                if made in carrying:
                    carrying.add(call)
    used = {made for made, *_ in taken}
    saved = [each for each in graph.nodes if each.op in ("placeholder", "get_attr")]
    saved = [each for each in saved if each in used and each not in backward.tangents]
    modules, classes = _modules(calls, [(made, user) for made, _, user, *_ in taken])
    source = ProgramSource(backward.graph, backward.module, {}, {}, MADE_BY)
    names = names_of_inputs(captured, node)
    inner = {each: _call(each, source, modules.get(each), each in carrying) for each in calls}
    inner |= {each: _held(each, source, backward, names) for each in saved}
    flows = []
    for made, part, user, place, argument in taken:
        tangent = backward.tangents.get(made)
        start, nr = (inner[made], part) if tangent is None else (tangent, 0)
        flows.append(Flow(start, nr, inner[user], place, argument))
    ends = {nr: _made(value)[0] for nr, value in backward.gradients.items()}
    return Inside(
        node,
        [inner[each] for each in calls],
        [inner[each] for each in saved],
        flows,
        frozenset(inner[each] for each in calls if each in carrying),
        {nr: inner[end] for nr, end in ends.items() if is_call(end) and end in inner},
        {inner[call]: path for call, path in modules.items()},
        classes,
        functools.partial(run_inside, backward, inner, behind, max_bytes),
    )


def _call(call: Node, source: ProgramSource, module: str | None, carries: bool) -> Inner:
    recomputed = is_recomputed(call)
    described = describe(call, source)
    described.update(namespace=module, seq_nr=call.meta.get("seq_nr"), recomputed=recomputed)
    known = [each for each in described["outputs"] if each["shape"] is not None]
    if described["shape"] is None and known:  # of several, some can be left out
        described.update({key: known[0][key] for key in ("shape", "dtype", "device")})
    sentences = [_BEFORE_FUSION] if call.meta else [_BEFORE_FUSION, _FORGOTTEN]
    if recomputed:
        sentences.append(_RECOMPUTED)
    elif not carries:
        sentences.append(_ON_SAVED)
    elif adds_gradients(call):
        sentences.append("It adds up the gradients of a tensor that is used several times.")
    return Inner(described, " ".join(sentences), call, source_line(call))


def _held(
    held: Node, source: ProgramSource, backward: CompiledBackward, names: Mapping[int, str | None]
) -> Inner:
    fx = str(held.target)
    name = names.get(backward.parameters.get(fx, -1))
    called = called_of_saved(held)
    if name is not None:
        about = f"{name}, as the forward pass saved it. The backward program calls it {fx}."
    elif fx.startswith("primals_"):
        about = (
            f"The {called} of the compiled code, as the forward pass saved it. The backward "
            f"program calls it {fx}."
        )
    else:
        about = f"What {fx} gave in the forward pass, which saved it for this backward program."
    described = describe(held, source)
    described.update(op=called, name=name, namespace=None)
    return Inner(described, about, held, source_line(held))


def called_of_saved(held: Node) -> str:
    """Name a saved tensor after its producer or its position."""
    number = str(held.target).removeprefix("primals_")
    return f"argument {number}" if number.isdigit() else held.name


def names_of_saved(captured: Capture, node: int) -> list[str]:
    """Name the tensors that a compiled node saved, in order; an empty list if unknown."""
    if not is_compiled(captured.nodes[node]):
        return []
    try:
        backward = compiled_backward(captured.nodes[node])
    except CannotOpenError:
        return []
    names = names_of_inputs(captured, node)
    given = (names.get(backward.parameters.get(str(each.target), -1)) for each in backward.saved)
    return [
        name or called_of_saved(each)
        for each, name in zip(backward.saved, given, strict=True)
        if gives_tensors(each)
    ]


def _made(value: Node) -> tuple[Node, int]:
    """Return the producer of a value, and the index among its results."""
    part = 0
    while value.target is operator.getitem and isinstance(value.args[0], Node):
        index = value.args[1]
        part = index if isinstance(index, int) else 0
        value = value.args[0]
    return value, part


_ITEM = re.compile(r"\[['\"]?([^\]'\"]*)['\"]?\]")


def _modules(
    calls: Sequence[Node], flows: Sequence[tuple[Node, Node]]
) -> tuple[dict[Node, str], dict[str, str]]:
    """Return the module of each call, and the classes of the modules, by their paths."""
    stacks = {call: _stack(call) for call in calls}
    paths = {path for stack in stacks.values() for path, _ in stack}
    several = len({path[:1] for path in paths}) > 1
    # The compiled function is a module's own forward if no stack holds that module itself.
    is_forward = bool(paths) and not several and all(len(path) > 1 for path in paths)
    found: dict[Node, str] = {}
    classes: dict[str, str] = {}
    for call, stack in stacks.items():
        for path, name in stack:  # several modules that the compiled function takes have names
            found[call] = "/".join(path if several else path[1:])
            classes[found[call]] = name
    taken: dict[Node, list[Node]] = {}
    for made, user in flows:
        taken.setdefault(user, []).append(made)
    for call in calls:
        if call not in found and adds_gradients(call):
            # The tensor is used in all of these modules, so it is one of what is around them.
            around = [found[made] for made in taken.get(call, ()) if made in found]
            if around:
                found[call] = common_ancestor(around, "/")
        elif call not in found and is_forward:
            found[call] = ""
    return found, classes


def _stack(call: Node) -> list[tuple[tuple[str, ...], str]]:
    """Return the modules around a call or its forward operation, outermost first.

    Returns path and class of each. A path begins with the variable that holds the outermost module:
    ("net", "blocks", "0") for what torch calls "L['net'].blocks.0".
    """
    stack = call.meta.get("fwd_nn_module_stack") or call.meta.get("nn_module_stack") or {}
    found = []
    for path, kind in stack.values():
        plain = _ITEM.sub(r".\1", path.partition("@")[0]).replace("._modules", "")
        name = kind.__qualname__ if isinstance(kind, type) else str(kind)
        found.append((tuple(plain.split(".")[1:]), name.rpartition(".")[2]))
    return found
