"""Convert static graphs of torch.fx and torch.export to captured graphs."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.operator_schemas import get_signature_for_torch_op
from torch.fx.passes.shape_prop import TensorMetadata

from ..graph.adjacency import walk
from ..lazily import nx
from ..torch_api.signatures import Operator, declared_arguments
from ..tracing.source_line import SourceLine, is_library
from ..types import Program
from .control_flow import Entered

_FRAME = re.compile(r'File "(.*)", line (\d+), in (.*)(?:\n[ \t]+(?!File ")(.*))?')

_WRITTEN_BY_FX = "<eval_with_key>"


def source_line(node: Node) -> SourceLine | None:
    """Return a node's innermost line outside torch; None without a trace, as of torch.fx."""
    found = _FRAME.findall(node.stack_trace or "")
    for file, line, function, text in reversed(found):
        if not is_library(file) and not file.startswith(_WRITTEN_BY_FX):
            return SourceLine(file, int(line), text.strip(), function.strip())
    return None


_INPUTS = ("placeholder", "get_attr")
_LEAVES = ("placeholder", "parameter")
INPUT_OPS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
    InputKind.CUSTOM_OBJ: "constant",
}
_MOST_CHARACTERS = 500  # of a call's text, which may contain lists of many tensors


@dataclass(frozen=True)
class ProgramSource:
    """A static graph and the data to read it."""

    graph: Graph  # the fx graph
    module: GraphModule  # the module for its ``get_attr`` and ``call_module`` nodes
    # Name of a placeholder for a part of the exported module -> its kind ("parameter", "buffer",
    # "constant") and path.
    inputs: Mapping[str, tuple[str, str]]
    # Name of an output node that is not returned -> the change it represents.
    changes: Mapping[str, str]
    made_by: str  # "torch.export" or "torch.fx"


def describe(node: Node, source: ProgramSource) -> dict[str, Any]:
    """Return a node's attributes except its place in the program; see `capture_program`."""
    op, name = _op_and_name(node, source)
    value = _value(node, source.module)
    several = isinstance(value, (tuple, list)) and not isinstance(value, TensorMetadata)
    outputs = [_output(nr, each) for nr, each in enumerate(value if several else [value])]
    is_leaf = node.op in _INPUTS
    line = source_line(node)
    if name is not None and outputs:
        outputs[0]["name"] = name
    first = outputs[0] if outputs else _output(0, None)
    return {
        "kind": "op" if not is_leaf else "leaf" if op in _LEAVES else "constant",
        "op": op,
        "name": name,
        "shape": first["shape"],
        "dtype": first["dtype"],
        "device": first["device"],
        # Export runs operations on fake tensors, whose requires_grad may differ from the real ones.
        "requires_grad": getattr(value, "requires_grad", None) if is_leaf else None,
        "is_leaf": is_leaf and op != "subgraph",
        "outputs": outputs,
        "no_grad_inputs": [],
        "fx_name": node.name,
        "called": None if is_leaf else _written(node, op),
        "numbers": [],
        "source": None if line is None else str(line),
        "namespace": _namespace(node, op, name),
    }


def _op_and_name(node: Node, source: ProgramSource) -> tuple[str, str | None]:
    target: Any = node.target
    if node.op == "placeholder":
        return source.inputs.get(node.name, ("placeholder", str(target)))
    if node.op == "get_attr":
        held = attribute(source.module, target)
        if isinstance(held, torch.nn.Module):  # the body of a conditional or loop
            return "subgraph", target
        if isinstance(held, torch.nn.Parameter):
            return "parameter", target
        path = str(target).rpartition(".")[0]
        owner = attribute(source.module, path) if path else source.module
        is_buffer = isinstance(owner, torch.nn.Module) and any(
            held is buffer for buffer in owner.buffers(recurse=False)
        )
        # torch.fx also makes buffers of constants, with this name.
        return "buffer" if is_buffer and "_tensor_constant" not in target else "constant", target
    if node.op == "call_module":
        return type(attribute(source.module, target)).__name__, target
    if isinstance(target, Operator):
        return str(target), None
    return str(getattr(target, "__name__", target)), None


def _written(node: Node, op: str) -> str:
    callee, args = op, list(node.args)
    if node.op == "call_module":
        callee = f"self.{node.target}"
    elif node.op == "call_method" and args:
        callee = f"{args.pop(0)}.{node.target}"
    given = [*map(repr, args), *(f"{name}={value!r}" for name, value in node.kwargs.items())]
    text = f"{callee}({', '.join(given)})"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _namespace(node: Node, op: str, name: str | None) -> str | None:
    stack = node.meta.get("nn_module_stack")
    if node.op == "call_module":  # the module is the node itself
        path = str(node.target).rpartition(".")[0]
    elif stack:
        path = str(list(stack.values())[-1][0])
    elif op in INPUT_OPS.values() and name is not None:
        path = name.rpartition(".")[0]
    else:
        path = ""
    return path.replace(".", "/") or None


def _value(node: Node, module: GraphModule) -> Any:
    """Return an object, or a list, with the shape and dtype of a node's output; None if unknown."""
    for key in ("val", "example_value", "tensor_meta"):
        if node.meta.get(key) is not None:
            return node.meta[key]
    return attribute(module, str(node.target)) if node.op == "get_attr" else None


def _output(nr: int, value: Any) -> dict[str, Any]:
    known = isinstance(value, (torch.Tensor, TensorMetadata))
    shape = tuple(value.shape) if known else None
    if shape is not None and not all(type(size) is int for size in shape):
        shape = None  # exported with dynamic sizes
    device = getattr(value, "device", None) if known else None
    return {
        "output_nr": nr,
        "name": None,
        "shape": shape,
        "dtype": str(value.dtype) if known else None,
        "device": None if device is None else str(device),
    }


def attribute(module: GraphModule, path: str) -> Any:
    """Return the attribute of a module at a path, "encoder.weight"."""
    return operator.attrgetter(path)(module)


_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)
"""Python's own functions, which `torch.fx.symbolic_trace` keeps instead of torch's."""


def capture_program(program: Program, entered: Entered) -> tuple[nx.MultiDiGraph, list[Node]]:
    """Return a static graph as a networkx graph, and the fx nodes in the order of its nodes.

    There is one graph node per fx node except fx's "output", whose arguments are the roots. Edges
    point from a node to its inputs, as gradients would flow. Nodes are numbered breadth-first from
    the outputs. Nodes that no output needs follow, and last those that are the same in each call:
    buffers and constants. In ``entered`` control flow (``cond``, ``while_loop``, ``map``, parts
    under ``torch.no_grad``) edges lead from the call to the results of its graphs, and from them to
    the call's arguments.

    The attributes are those of `gradwalk.capture`, None where unknown. ``kind`` is "op" for calls,
    "leaf" for inputs and parameters, else "constant". ``op`` is the callee, or "placeholder",
    "parameter", "buffer", "constant" or "subgraph" (of control flow with unknown inputs). ``shape``
    is None with symbols in it. ``sequence_nr`` is the place in fx's own list. ``namespace`` has a
    part for each box of control flow, "encoder/torch.cond: if true". ``root_names`` has for each
    root its change, "updated bn.running_mean", or None for a returned value.

    Example::

        >>> from torch import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> from gradwalk.static.control_flow import enter
        >>> traced = torch.fx.symbolic_trace(net)
        >>> graph, _ = capture_program(traced, enter(traced.graph, traced))
        >>> [(data["op"], data["name"]) for _, data in graph.nodes(data=True)]
        [('ReLU', '1'), ('Linear', '0'), ('placeholder', 'input')]
    """
    source = _read(program)
    roots = _root_nodes(source.graph)
    sources = {
        node: source if module is source.module else replace(source, module=module, inputs={})
        for node, module in entered.nodes
    }
    takes = {node: list(_takes(node, sources[node], entered)) for node in sources}
    described = {node: describe(node, sources[node]) for node in _breadth_first(takes, roots)}
    modules = {node: data["namespace"] for node, data in described.items()}
    for node in described if entered.bodies else ():
        if node in entered.within:
            described[node]["namespace"] = _boxed(node, entered, modules)
        elif described[node]["op"] == "placeholder":
            described[node]["namespace"] = ""  # shared, even if only one body takes it
    for node in roots:  # a returned value is drawn as an input, even a constant one
        if described[node]["kind"] == "constant":
            described[node]["kind"] = "leaf"
    ordered = sorted(described, key=lambda node: described[node]["kind"] == "constant")  # stable
    ids = {node: i for i, node in enumerate(ordered)}
    graph = nx.MultiDiGraph(
        roots=[(ids[node], 0) for node in roots],
        root_names=[source.changes.get(node.name) for node in roots],
        torch_version=str(torch.__version__),
        static=True,
        made_by=source.made_by,
    )
    places = {node: i for i, node in enumerate(sources)}
    for node, i in ids.items():
        graph.add_node(i, **described[node], sequence_nr=places[node])
    for node, i in ids.items():
        for nr, (argument, value) in enumerate(takes[node]):
            if isinstance(value, Node):
                output_nr = _output_nr(node, graph.nodes[ids[value]])
                edge = {"arg_nr": nr, "argument": argument, "output_nr": output_nr}
                graph.add_edge(i, ids[value], key=nr, **edge)
            else:
                number = {"arg_nr": nr, "argument": argument, "value": str(value)}
                graph.nodes[i]["numbers"].append(number)
    return graph, ordered


def held_by(program: Program | None, path: str) -> Any:
    """Return the attribute of a program with a name; None for none."""
    if isinstance(program, ExportedProgram):
        for kept in (program.state_dict, program.constants):
            if path in kept:
                return kept[path]
        program = program.graph_module
    held: Any = program
    for name in path.split("."):
        held = getattr(held, name, None)
    return held


def _read(program: Program) -> ProgramSource:
    if isinstance(program, ExportedProgram):
        inputs = {
            spec.arg.name: (INPUT_OPS[spec.kind], spec.target)
            for spec in program.graph_signature.input_specs
            if spec.kind in INPUT_OPS and spec.target is not None
        }
        changes = {
            spec.arg.name: f"updated {spec.target}"
            for spec in program.graph_signature.output_specs
            if spec.kind.name.endswith("_MUTATION")
        }
        return ProgramSource(program.graph, program.graph_module, inputs, changes, "torch.export")
    return ProgramSource(program.graph, program, {}, {}, "torch.fx")


def _root_nodes(graph: Graph) -> list[Node]:
    outputs = [node for node in graph.nodes if node.op == "output"]
    return [
        value for node in outputs for _, value in _flat("", node.args) if isinstance(value, Node)
    ]


def _takes(node: Node, source: ProgramSource, entered: Entered) -> Iterator[tuple[str | None, Any]]:
    """Yield (argument, value) of a node's inputs; the results of bodies for control flow."""
    bodies = entered.bodies.get(node, [])
    first = bodies[0].held if bodies else None
    found = list(takewhile(lambda each: each[1] is not first, operands(node, source.module)))
    for body in bodies:
        word = body.box.partition(": ")[2]
        for i, value in enumerate(body.outputs):
            found.append((word if len(body.outputs) == 1 else f"{word}[{i}]", value))
    for argument, value in found:
        given = entered.outer.get(value, value) if isinstance(value, Node) else value
        if isinstance(given, Node) or (
            isinstance(given, (int, float)) and not isinstance(given, bool)
        ):
            yield argument, given


def _boxed(node: Node, entered: Entered, modules: Mapping[Node, str | None]) -> str | None:
    """The namespace of a node of a body: modules, with the boxes of bodies in them."""
    parts: list[str] = []
    inner = modules[node] or ""
    while node in entered.within:
        node, body = entered.within[node]
        outer = modules[node] or ""
        parts += [inner.removeprefix(outer).strip("/"), body.box]
        inner = outer
    return "/".join(filter(None, [inner, *reversed(parts)])) or None


def _breadth_first(
    takes: Mapping[Node, Sequence[tuple[str | None, Any]]], roots: Sequence[Node]
) -> list[Node]:
    def taken(node: Node) -> Iterator[Node]:
        return (each for _, each in takes[node] if isinstance(each, Node))

    return list(dict.fromkeys([*walk(roots, taken), *takes]))


def _output_nr(node: Node, producer: Mapping[str, Any]) -> int:
    """Return which output of its producer a node takes: nonzero only for ``getitem``."""
    count = len(producer["outputs"])
    if node.target is operator.getitem and count > 1 and isinstance(node.args[1], int):
        return node.args[1] % count
    return 0


def operands(node: Node, module: GraphModule) -> Iterator[tuple[str | None, Any]]:
    """Yield (argument, value) for each input node, and each number that replaces a tensor."""
    if node.target is operator.getitem and len(node.args) == 2 and isinstance(node.args[0], Node):
        yield f"[{node.args[1]}]", node.args[0]
        return
    target: Any = node.target
    declared = declared_arguments(target) if isinstance(target, Operator) else None
    names = [*declared] if declared is not None else _parameter_names(node, module)
    tensors = {name for name, is_tensor in (declared or {}).items() if is_tensor}
    if target in _ARITHMETIC:
        tensors = {"a", "b"}
    given = [*zip([*names, *[None] * len(node.args)], node.args, strict=False)]
    for argument, value in [*given, *node.kwargs.items()]:
        for name, each in _flat(argument, value):
            is_number = isinstance(each, (int, float, complex)) and not isinstance(each, bool)
            if isinstance(each, Node) or (is_number and name in tensors):
                yield name, each


def _flat(argument: str | None, value: Any) -> Iterator[tuple[str | None, Any]]:
    """Yield the items of a list argument as ``tensors[0]``, ``tensors[1]``, ..."""
    inside: Any = ()
    if isinstance(value, (list, tuple)):
        inside = enumerate(value)
    elif isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, slice):
        inside = (("start", value.start), ("stop", value.stop), ("step", value.step))
    else:
        yield argument, value
    for key, each in inside:
        yield from _flat(None if argument is None else f"{argument}[{key}]", each)


def _parameter_names(node: Node, module: GraphModule) -> list[str | None]:
    """Return the callee's names of its positional arguments, None for unknown ones."""
    target: Any = node.target
    if node.op == "call_module":
        return _names_of(attribute(module, target).forward, node)
    if node.op == "call_method":  # torch.flatten has the parameters of Tensor.flatten
        function = getattr(torch, target, None)
        return ["self", *(_names_of(function, node)[1:] if callable(function) else [])]
    return _names_of(target, node) if node.op == "call_function" else []


def _names_of(function: Callable[..., Any], node: Node) -> list[str | None]:
    try:
        signatures = [inspect.signature(function)]
    except (TypeError, ValueError):  # written in C++; torch lists the overloads of its own
        signatures = get_signature_for_torch_op(function) or []
    for signature in signatures:
        parameters = signature.parameters.values()
        names: list[str | None] = []
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names += [p.name for p in parameters if p.kind in by_place]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):  # these have no names
            names += [None] * (len(node.args) - len(names))
        if len(names) >= len(node.args) and set(node.kwargs) <= set(signature.parameters):
            return names
    return []
