"""Which module each operation belongs to, inferred where no `watch` saw the forward pass.

The operations that take a module's parameters are certain. Between two of them the program went
through the code of modules that are left, of those around both, and of those that are entered, in
the order in which the code is written. So what lies between is aligned with what that code does;
where it fits several modules alike, it stays in the one around them.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from torch import nn

from ...graph.capture import Capture
from ...graph.labels import is_pass_through
from ...graph.names import OUTSIDE, Names
from ...torch_api.modules import own_parameters
from ...torch_api.nodes import is_compiled
from ...tracing.annotate import Annotated
from .code_steps import Aligner
from .module_code import ModuleCode, NotedModule, noted_modules
from .walk_code import CodeWalk, Program, certain_operations, read_program

MOST_OUTSIDE = 12  # operations outside of modules that stay as they are


def boxes_outside(captured: Annotated, inferred: Mapping[int, str]) -> dict[int, str]:
    """Find boxes for operations that lie in no module but the outermost.

    A watched operation is boxed by the function that called it, unless modules ran in between: a
    method of the model or a training step, which belongs around them. Where modules are inferred,
    all that follows the last one is boxed, if it leads to one output.

    Returns node id -> "load_balancing_loss()" or "loss = …", of operations that are more than
    `MOST_OUTSIDE` in their box; no module has such a path. ``inferred``: node id -> namespace,
    where these are inferred; empty where they were watched.
    """
    spaces = inferred or dict(captured.drawn.nodes(data="namespace"))
    if not any(spaces.values()):
        return {}
    order = captured.operations
    inside = [bool(spaces.get(node)) for node in order]
    if not any(inside):
        return {}
    found: dict[str, list[int]] = defaultdict(list)  # the places of the operations of a box
    if inferred:
        last = max(place for place, is_inside in enumerate(inside) if is_inside)
        name = _output(captured)
        if name is not None:
            found[f"{name} = …"] = list(range(last + 1, len(order)))
    else:
        for place, node in enumerate(order):
            function = _function(captured, node)
            if function is not None and not inside[place]:
                found[f"{function}()"].append(place)
    modules_before = [0, *accumulate(inside)]
    return {
        order[place]: box
        for box, places in found.items()
        if len(places) > MOST_OUTSIDE and modules_before[places[0]] == modules_before[places[-1]]
        for place in places
    }


def _function(captured: Annotated, node: int) -> str | None:
    """The function that called an operation; None at the top level and for a module's forward."""
    seen = captured.annotations.get(node)
    name = seen.source.function if seen is not None and seen.source is not None else "<module>"
    return None if name == "forward" or name.startswith("<") else name


def _output(captured: Annotated) -> str | None:
    """Return the name of the only output; None for several, or if a path cannot have it."""
    roots = captured.graph.graph["roots"]
    if len(roots) != 1:
        return None
    ((node, output_nr),) = roots
    outputs = captured.graph.nodes[node]["outputs"]
    name = (outputs[output_nr]["name"] if output_nr < len(outputs) else None) or "output"
    return None if "/" in name else name


def infer_namespaces(captured: Capture, modules: Mapping[str, nn.Module]) -> dict[int, str]:
    """Return node id -> "encoder/layers/0/linear1", without having seen the forward pass."""
    return _inferred(captured, _noted(captured, modules))


def inferred_namespaces(captured: Annotated, names: Names) -> Callable[[], dict[int, str]]:
    """Return a function that calls `infer_namespaces` once; it holds no module."""
    if not names.modules or any(seen.module for seen in captured.annotations.values()):
        return dict
    alive = {path: module for path, ref in names.modules.items() if (module := ref()) is not None}
    noted = _noted(captured, alive)

    @functools.cache
    def infer() -> dict[int, str]:
        try:
            found = _inferred(captured, noted)
        except Exception:  # draw the picture without boxes
            return {}
        return found if any(found.values()) else {}

    return infer


@dataclass(frozen=True)
class _Noted:
    """Facts about modules whose operations may be in a graph."""

    # Leaf -> the dotted names of the parameter that it is, of each module that has it.
    parameters: dict[int, list[str]]
    owners: set[str]  # the paths of these modules
    modules: dict[str, NotedModule]  # the facts about each module, by dotted path


def _noted(captured: Capture, modules: Mapping[str, nn.Module]) -> _Noted:
    parameters = _parameters(captured, modules)
    owners = {name.rpartition(".")[0] for names in parameters.values() for name in names}
    return _Noted(parameters, owners, noted_modules(modules, owners))


def _inferred(captured: Capture, noted: _Noted) -> dict[int, str]:
    program = read_program(captured, noted.parameters)
    code = ModuleCode(noted.modules, noted.owners)
    walk, aligner = CodeWalk(code), Aligner()
    found: list[str] = []  # the module of each operation
    anchors = certain_operations(program, code)
    ends = [*(anchor.place for anchor in anchors), len(program.ops)]
    paths = [*([anchor.path] for anchor in anchors), []]
    for end, path, deeds in zip(ends, paths, walk.through(anchors), strict=True):
        found += aligner.owners(program.ops[len(found) : end], deeds) + path
    known = {anchor.place for anchor in anchors}
    for place in _of_unregistered(captured, noted.parameters, program):
        if place not in known:
            found[place] = OUTSIDE
    by_node = dict(zip(program.nodes, found, strict=True))
    used = {name for anchor in anchors for name in anchor.parameters}
    for leaf, names in noted.parameters.items():
        name = next((each for each in names if each in used), names[0])
        by_node[leaf] = name.rpartition(".")[0]
    spaces = {node: by_node.get(node, OUTSIDE) for node in captured.graph}
    for node, own in enumerate(captured.nodes):
        if is_compiled(own):  # code of many modules, however many of them took parameters
            spaces[node] = OUTSIDE
    return {
        node: "" if path == OUTSIDE else path.replace(".", "/") for node, path in spaces.items()
    }


def _of_unregistered(
    captured: Capture, registered: Container[int], program: Program
) -> Iterator[int]:
    """Yield the places of operations that use a parameter of no known module."""
    leaves = {
        node
        for node, leaf in captured.leaves()
        if node not in registered and isinstance(leaf, nn.Parameter)
    }
    if not leaves:
        return
    derived: set[int] = set()  # operations that only rearrange such a parameter
    for place, node in enumerate(program.nodes):
        takes = [t in leaves for t in captured.successors[node]]
        takes += [operand in derived for operand in program.operands[place]]
        if any(takes):
            yield place
            if is_pass_through(program.ops[place]):
                derived.add(place)


def _parameters(captured: Capture, modules: Mapping[str, nn.Module]) -> dict[int, list[str]]:
    """Leaf -> the dotted names of the parameter that it is, of each module that has it."""
    leaves = {id(leaf): node for node, leaf in captured.leaves()}
    names: dict[int, list[str]] = {}
    for path, module in modules.items():
        for name, parameter in own_parameters(module).items():
            node = leaves.get(id(parameter))
            if node is not None:
                names.setdefault(node, []).append(f"{path}.{name}" if path else name)
    return names
