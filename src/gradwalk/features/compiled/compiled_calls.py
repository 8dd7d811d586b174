"""The inside of a compiled node: the calls of its backward program."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Mapping, Sequence

from torch.fx import Node

from ...graph.capture import Capture
from ...graph.module_paths import common_ancestor
from ...sources.inner_graph import Flow, Inner, Inside, names_of_inputs
from ...static.fx_graph import operands
from ...static.fx_node import Source, describe, source_line
from ...torch_api.compiled import (
    CannotOpenError,
    CompiledBackward,
    adds_gradients,
    compiled_backward,
    gives_tensors,
    is_call,
    is_compiled,
    is_recomputed,
)
from .replay_calls import run_inside

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
    """Read the inside of a compiled node.

    Args:
        captured: The graph.
        node: The id of the node.
        max_bytes: Of large tensors to keep, when it is run.

    Raises:
        CannotOpenError: Why there is none to look at.
    """
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
    source = Source(backward.graph, backward.module, {}, {}, MADE_BY)
    names = names_of_inputs(captured, node)
    inner = {each: _call(each, source, modules.get(each), each in carrying) for each in calls}
    inner |= {each: _held(each, source, backward, names) for each in saved}
    return Inside(
        node,
        [inner[each] for each in calls],
        [inner[each] for each in saved],
        [
            Flow(
                backward.tangents[made] if made in backward.tangents else inner[made],
                0 if made in backward.tangents else part,
                inner[user],
                place,
                argument,
            )
            for made, part, user, place, argument in taken
        ],
        frozenset(inner[each] for each in calls if each in carrying),
        {
            nr: inner[made]
            for nr, value in backward.gradients.items()
            if is_call(made := _made(value)[0]) and made in inner
        },
        {inner[call]: path for call, path in modules.items()},
        classes,
        functools.partial(run_inside, backward, inner, behind, max_bytes),
    )


def _call(call: Node, source: Source, module: str | None, carries: bool) -> Inner:
    recomputed = is_recomputed(call)
    described = describe(call, source)
    described.update(namespace=module, seq_nr=call.meta.get("seq_nr"), recomputed=recomputed)
    known = [each for each in described["outputs"] if each["shape"] is not None]
    if described["shape"] is None and known:  # of several, some can be left out
        described.update({key: known[0][key] for key in ("shape", "dtype", "device")})
    said = [_BEFORE_FUSION] if call.meta else [_BEFORE_FUSION, _FORGOTTEN]
    if recomputed:
        said.append(_RECOMPUTED)
    elif not carries:
        said.append(_ON_SAVED)
    elif adds_gradients(call):
        said.append("It adds up the gradients of a tensor that is used several times.")
    return Inner(described, " ".join(said), call, source_line(call))


def _held(
    held: Node, source: Source, backward: CompiledBackward, names: Mapping[int, str | None]
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
    """Name the tensors that a compiled node saved, in order; an empty list if unknown.

    Args:
        captured: The graph.
        node: The id of the node.
    """
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
    """The producer of a value, and the index among its results."""
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
    """The module of each call, and the classes of the modules, by their paths."""
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
    """The modules around a call, or around what it is the backward of, from the outside.

    Returns:
        Path and class of each. A path begins with the variable that holds the outermost module:
        ("net", "blocks", "0") for what torch calls "L['net'].blocks.0".
    """
    stack = call.meta.get("fwd_nn_module_stack") or call.meta.get("nn_module_stack") or {}
    found = []
    for path, kind in stack.values():
        plain = _ITEM.sub(r".\1", path.partition("@")[0]).replace("._modules", "")
        name = kind.__qualname__ if isinstance(kind, type) else str(kind)
        found.append((tuple(plain.split(".")[1:]), name.rpartition(".")[2]))
    return found
