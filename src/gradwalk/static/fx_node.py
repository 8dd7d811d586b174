"""Convert one node of a static graph to the attributes of a captured graph."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.shape_prop import TensorMetadata

from ..torch_api.signatures import Operator
from ..tracing.source_line import SourceLine, is_library

_FRAME = re.compile(r'File "(.*)", line (\d+), in (.*)(?:\n[ \t]+(?!File ")(.*))?')

_WRITTEN_BY_FX = "<eval_with_key>"


def source_line(node: Node) -> SourceLine | None:
    """Return the innermost line outside torch; None if fx kept no trace or only torch's lines.

    Args:
        node: A node of torch.export, which keeps traces, or of torch.fx, which mostly does not.
    """
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
class Source:
    """A static graph and the data to read it.

    Attributes:
        graph: The fx graph.
        module: The module for its ``get_attr`` and ``call_module`` nodes.
        inputs: Name of a placeholder for a part of the exported module -> its kind ("parameter",
            "buffer", "constant") and path.
        changes: Name of an output node that is not returned -> the change it represents.
        made_by: "torch.export" or "torch.fx".
    """

    graph: Graph
    module: GraphModule
    inputs: Mapping[str, tuple[str, str]]
    changes: Mapping[str, str]
    made_by: str


def describe(node: Node, source: Source) -> dict[str, Any]:
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


def _op_and_name(node: Node, source: Source) -> tuple[str, str | None]:
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
    """Return the call as code."""
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
